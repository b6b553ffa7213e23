// Work shared out among threads.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace shusaku {

// `work(part)` for each of the parts: the first in the calling thread, each other one in a thread of its own.  What
// fails in one is thrown here when all have ended.
template <class Work>
void run_parts(int parts, const Work& work) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto run = [&](int part) {
    try {
      work(part);
    } catch (...) {
      failures[std::size_t(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;  // which are waited for even if one cannot be started
    threads.reserve(std::size_t(parts - 1));
    for (int part = 1; part < parts; ++part) threads.emplace_back(run, part);
    run(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace shusaku
