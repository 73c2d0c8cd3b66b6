// What this processor can do, by LLVM's names of features. x86-64: CPUID (Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E), and
// XCR0 for what the system saves of vector registers. AArch64: the kernel's hardware capabilities.
#include <stdio.h>
#include <string.h>

#include "runtime-lite/backend/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace tgb {
namespace {

struct Words {
  char* at;
  size_t left;
  void add(const char* word) {
    size_t n = strlen(word);
    if (n + 2 > left) return;
    memcpy(at, word, n);
    at[n] = ' ', at[n + 1] = 0;
    at += n + 1, left -= n + 1;
  }
};

#if defined(__x86_64__)
enum Needs : uint8_t { kNone, kYmm, kZmm, kAmx };  // state that the system must save
// clang-format off
struct Row { uint32_t leaf; uint8_t sub, reg, bit; Needs needs; char name[16]; };
constexpr Row kRows[] = {  // reg: 0 eax, 1 ebx, 2 ecx, 3 edx
  {1, 0, 3, 25, kNone, "sse"},            {1, 0, 3, 26, kNone, "sse2"},          {1, 0, 2, 0, kNone, "sse3"},
  {1, 0, 2, 1, kNone, "pclmul"},          {1, 0, 2, 9, kNone, "ssse3"},          {1, 0, 2, 12, kYmm, "fma"},
  {1, 0, 2, 13, kNone, "cx16"},           {1, 0, 2, 19, kNone, "sse4.1"},        {1, 0, 2, 20, kNone, "sse4.2"},
  {1, 0, 2, 22, kNone, "movbe"},          {1, 0, 2, 23, kNone, "popcnt"},        {1, 0, 2, 25, kNone, "aes"},
  {1, 0, 2, 28, kYmm, "avx"},             {1, 0, 2, 29, kYmm, "f16c"},
  {7, 0, 1, 3, kNone, "bmi"},             {7, 0, 1, 5, kYmm, "avx2"},            {7, 0, 1, 8, kNone, "bmi2"},
  {7, 0, 1, 16, kZmm, "avx512f"},         {7, 0, 1, 17, kZmm, "avx512dq"},       {7, 0, 1, 19, kNone, "adx"},
  {7, 0, 1, 21, kZmm, "avx512ifma"},      {7, 0, 1, 28, kZmm, "avx512cd"},       {7, 0, 1, 30, kZmm, "avx512bw"},
  {7, 0, 1, 31, kZmm, "avx512vl"},        {7, 0, 2, 1, kZmm, "avx512vbmi"},      {7, 0, 2, 6, kZmm, "avx512vbmi2"},
  {7, 0, 2, 8, kNone, "gfni"},            {7, 0, 2, 9, kYmm, "vaes"},            {7, 0, 2, 10, kYmm, "vpclmulqdq"},
  {7, 0, 2, 11, kZmm, "avx512vnni"},      {7, 0, 2, 12, kZmm, "avx512bitalg"},   {7, 0, 2, 14, kZmm, "avx512vpopcntdq"},
  {7, 0, 3, 22, kAmx, "amx-bf16"},        {7, 0, 3, 23, kZmm, "avx512fp16"},     {7, 0, 3, 24, kAmx, "amx-tile"},
  {7, 0, 3, 25, kAmx, "amx-int8"},        {7, 1, 0, 4, kYmm, "avxvnni"},         {7, 1, 0, 5, kZmm, "avx512bf16"},
  {7, 1, 0, 23, kYmm, "avxifma"},         {7, 1, 3, 4, kYmm, "avxvnniint8"},     {7, 1, 3, 5, kYmm, "avxneconvert"},
  {7, 1, 3, 10, kYmm, "avxvnniint16"},
  {0x80000001, 0, 2, 5, kNone, "lzcnt"},
};
// clang-format on

uint64_t saved_state() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0;  // OSXSAVE
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return lo | uint64_t(hi) << 32;
}

void find(Words& out) {
  out.add("x86_64");
  uint64_t saved = saved_state();
  bool have[] = {true, (saved & 6) == 6, (saved & 0xe6) == 0xe6, (saved & 0x60000) == 0x60000};
  for (const Row& row : kRows) {
    uint32_t regs[4];
    if (__get_cpuid_count(row.leaf, row.sub, &regs[0], &regs[1], &regs[2], &regs[3]) && (regs[row.reg] >> row.bit & 1) && have[row.needs])
      out.add(row.name);
  }
}
#elif defined(__aarch64__)
#if defined(__linux__)
struct Row {
  uint8_t word, bit;  // AT_HWCAP or AT_HWCAP2; bits of asm/hwcap.h
  char name[14];
};
constexpr Row kRows[] = {{0, 1, "neon"}, {0, 0, "fp-armv8"}, {0, 8, "lse"},  {0, 10, "fullfp16"}, {0, 12, "rdm"},  {0, 20, "dotprod"},
                         {0, 22, "sve"}, {0, 3, "aes"},      {1, 1, "sve2"}, {1, 13, "i8mm"},     {1, 14, "bf16"}, {0, 23, "fp16fml"}};
void find(Words& out) {
  out.add("arm64");
  out.add("aarch64");
  unsigned long caps[2] = {getauxval(AT_HWCAP), getauxval(26)};
  for (const Row& row : kRows)
    if (caps[row.word] >> row.bit & 1) out.add(row.name);
}
#else
void find(Words& out) {
  for (const char* w : {"arm64", "aarch64", "neon", "fp-armv8"}) out.add(w);
}
#endif
#else
void find(Words&) {}
#endif

}  // namespace

const char* cpu_features(char* room, size_t bytes) {
  Words words{room, bytes};
  snprintf(room, bytes, " ");
  words.at++, words.left--;
  find(words);
  return room;
}

}  // namespace tgb
