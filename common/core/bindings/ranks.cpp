// The table in shared memory of a learner's ranks, in Python.
#include <string>

#include "bindings/arrays.h"
#include "ranks/shared_table.h"

namespace shusaku {

using namespace nb::literals;

#if defined(__linux__)

namespace {

void require_room(const SharedTable& table, size_t bytes) {
  require(bytes <= table.row_bytes(),
          std::to_string(bytes) + " bytes into a row of " + std::to_string(table.row_bytes()));
}

template <class T>
void sum_of(SharedTable& table, Out<T, 1> values, double seconds) {
  require_room(table, values.shape(0) * sizeof(T));
  nb::gil_scoped_release nogil;
  table.sum(values.data(), values.shape(0), seconds);
}

}  // namespace

#endif

void bind_ranks([[maybe_unused]] nb::module_& m) {
#if defined(__linux__)
  nb::class_<SharedTable>(m, "SharedTable")
      .def(nb::init<int, int, int, size_t>(), "descriptor"_a, "rank"_a, "ranks"_a, "row_bytes"_a)
      .def_static("file_bytes", &SharedTable::file_bytes, "ranks"_a, "row_bytes"_a)
      .def(
          "gather",
          [](SharedTable& table, In<std::uint8_t, 1> own, Out<std::uint8_t, 2> all, double seconds) {
            const size_t bytes = own.shape(0);
            require_room(table, bytes);
            require(all.shape(0) == size_t(table.ranks()) && all.shape(1) == bytes,
                    std::to_string(bytes) + " bytes into " + std::to_string(all.shape(0)) + " rows of " +
                        std::to_string(all.shape(1)) + "; the table has " + std::to_string(table.ranks()));
            nb::gil_scoped_release nogil;
            table.gather(reinterpret_cast<const std::byte*>(own.data()), bytes,
                         reinterpret_cast<std::byte*>(all.data()), seconds);
          },
          "own"_a, "all"_a, "seconds"_a)
      .def("sum", &sum_of<float>, "values"_a.noconvert(), "seconds"_a)
      .def("sum", &sum_of<double>, "values"_a.noconvert(), "seconds"_a);
#endif
}

}  // namespace shusaku
