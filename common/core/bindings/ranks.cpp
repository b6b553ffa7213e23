// The table in shared memory of a learner's ranks, in Python.
#include <string>

#include "bindings/arrays.h"
#include "ranks/shared_table.h"

namespace shusaku {

using namespace nb::literals;

void bind_ranks([[maybe_unused]] nb::module_& m) {
#if defined(__linux__)
  nb::class_<SharedTable>(m, "SharedTable")
      .def(nb::init<int, int, int, size_t>(), "descriptor"_a, "rank"_a, "ranks"_a, "row_bytes"_a)
      .def_static("file_bytes", &SharedTable::file_bytes, "ranks"_a, "row_bytes"_a)
      .def(
          "gather",
          [](SharedTable& table, In<std::uint8_t, 1> own, Out<std::uint8_t, 2> all, double seconds) {
            const size_t bytes = own.shape(0);
            require(bytes <= table.row_bytes() && all.shape(0) == size_t(table.ranks()) && all.shape(1) == bytes,
                    std::to_string(bytes) + " bytes into " + std::to_string(all.shape(0)) + " rows of " +
                        std::to_string(all.shape(1)) + "; the table has " + std::to_string(table.ranks()) + " of " +
                        std::to_string(table.row_bytes()));
            nb::gil_scoped_release nogil;
            table.gather(reinterpret_cast<const std::byte*>(own.data()), bytes,
                         reinterpret_cast<std::byte*>(all.data()), seconds);
          },
          "own"_a, "all"_a, "seconds"_a);
#endif
}

}  // namespace shusaku
