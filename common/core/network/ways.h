// Which loops this processor can run, the fastest ones first.
#pragma once

#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "network/amx_loops.h"
#include "network/int8_loops.h"
#include "network/norm_loops.h"
#include "network/winograd.h"

namespace shusaku {

#if defined(__x86_64__)
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
inline bool has_bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16") != 0; }
inline bool has_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni") != 0; }
#else
inline bool has_avx512() { return false; }
inline bool has_bf16() { return false; }
inline bool has_vnni() { return false; }
#endif

#if defined(__x86_64__) && defined(__linux__)
// What the processor has of a matrix unit (Intel's manual of instructions, CPUID, leaf 7: AMX).
enum : int { kAmxBf16 = 22, kAmxTile = 24, kAmxInt8 = 25 };
inline bool has_matrix_unit(int feature) {
  unsigned a = 0, b = 0, c = 0, bits = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &bits) != 0 && (bits >> feature & 1) != 0;
}
// Linux saves the unit's registers, 8 KiB, for a process that asks for it (Documentation/arch/x86/xstate.rst).
inline bool has_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  static const bool is_permitted = has_bf16() && kAmx != nullptr && has_matrix_unit(kAmxTile) &&
                                   has_matrix_unit(kAmxBf16) &&
                                   syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_permitted;
}
inline bool has_amx_int8() { return has_amx() && has_matrix_unit(kAmxInt8); }
#else
inline bool has_amx() { return false; }
inline bool has_amx_int8() { return false; }
#endif

inline constexpr const char *kByAmx = "amx", *kByVnni = "vnni", *kByWinograd16 = "winograd_16",
                            *kByWinograd8 = "winograd_8";

// To convolve floats or bf16 in a gradient step.
inline std::vector<std::string> convolution_ways(bool is_bf16) {
  std::vector<std::string> ways;
  if (is_bf16 && has_amx()) ways.emplace_back(kByAmx);
  if (has_avx512() && kWinograd512 != nullptr) ways.emplace_back(kByWinograd16);
  ways.emplace_back(kByWinograd8);
  return ways;
}

// To convolve numbers of 8 bits.
inline std::vector<std::string> int8_ways() {
  std::vector<std::string> ways;
  if (has_vnni() && has_amx_int8()) ways.emplace_back(kByAmx);
  if (has_bf16() && has_vnni()) ways.emplace_back(kByVnni);
  return ways;
}

// Null where the processor has no bf16.
inline const NormLoops* norm_loops(bool is_bf16) { return !is_bf16 ? kNormFloat : has_bf16() ? kNormBf16 : nullptr; }

inline const WinogradLoops& winograd_loops(const std::string& way) {
  return way == kByWinograd16 ? *kWinograd512 : kWinograd;
}

// For towers of so many filters; null if there are none.
inline const Int8Loops* int8_loops(const std::string& way, int filters) {
  return way == kByAmx ? int8_amx(filters) : int8_vnni(filters);
}

}  // namespace shusaku
