// The states of an external game that were used last, by the hash of the actions that led there.
#pragma once

#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "games/external/rules.h"

namespace shusaku {

class ExternalCache {
 public:
  explicit ExternalCache(size_t capacity) : capacity_(capacity) {}

  // nullptr if it is not known.
  ExternalStatePtr find(std::uint64_t key) {
    std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  void store(std::uint64_t key, const ExternalStatePtr& state) {
    std::list<Entry> evicted;  // destroyed after the lock is given back: a state may wait for an interpreter to go
    std::lock_guard lock(mutex_);
    if (index_.contains(key)) return;
    order_.emplace_front(key, state);
    index_[key] = order_.begin();
    if (order_.size() > capacity_) {
      index_.erase(order_.back().first);
      evicted.splice(evicted.begin(), order_, std::prev(order_.end()));
    }
  }

  // The planes of a state; `make` computes them the first time.
  template <class Make>
  std::shared_ptr<const ExternalPlanes> planes(ExternalState& state, Make make) {
    {
      std::lock_guard lock(mutex_);
      if (state.planes) return state.planes;
    }
    auto made = std::make_shared<const ExternalPlanes>(make());  // outside of the lock, like every call of the game
    std::lock_guard lock(mutex_);
    if (!state.planes) state.planes = std::move(made);
    return state.planes;
  }

 private:
  using Entry = std::pair<std::uint64_t, ExternalStatePtr>;
  size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> order_;  // the newest first
  std::unordered_map<std::uint64_t, std::list<Entry>::iterator> index_;
};

}  // namespace shusaku
