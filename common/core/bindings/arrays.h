// Numpy arrays in and out of C++.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <vector>

namespace shusaku {

namespace nb = nanobind;

template <class T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T, int N>
using Out = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array = nb::ndarray<nb::numpy, T>;

// A numpy array that takes over the contents of `values`.
template <class T>
Array<T> to_numpy(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Array<T>(kept->data(), {kept->size()}, owner);
}

// An uninitialised numpy array of this shape.
template <class T>
Array<T> new_numpy(std::initializer_list<size_t> shape) {
  size_t size = 1;
  for (size_t n : shape) size *= n;
  T* data = new T[size];
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Array<T>(data, shape, owner);
}

inline void require(bool holds, const std::string& text) {
  if (!holds) throw nb::value_error(text.c_str());
}

void bind_games(nb::module_& m);
void bind_search(nb::module_& m);
void bind_analysis(nb::module_& m);
void bind_rollouts(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_serving(nb::module_& m);
void bind_ranks(nb::module_& m);
void bind_network(nb::module_& m);
void bind_external_errors();

}  // namespace shusaku
