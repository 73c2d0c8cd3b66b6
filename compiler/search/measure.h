// Times a kernel's machine code and checks what it computes, in a child process: a candidate that crashes, hangs, writes where it must not
// or computes wrong values is a refusal with its reason.
//
//   Workers measurer(1, {"/proc/self/exe", "worker"}, "measurer");      // its jobs are answered by measure_bytes
//   Result<Measured> m = Measured::parse(*measurer.run({{job.bytes()}}, job.timeout())[0]);
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/uop.h"
#include "opt/kernel.h"

namespace tg {

// What is known about one parameter of a kernel.
struct MeasureSlot {
  Kind kind = Kind::F32;
  std::vector<i64> dims;
  Layout layout;          // of what is no constant
  bool constant = false;  // each launch finds it cold
  bool read = false, written = false;
  i64 limit = 0;  // integers: values are in [0, limit); 0: nothing asks for that
  std::vector<i64> before, after;  // a border of `fill`, as in Slot
  u64 fill = 0;

  void lie_as(const Slot& s);
};

struct MeasureSubject {
  std::vector<MeasureSlot> slots;
  i64 terms = 1;        // of the kernel's sums, all of them one after another: how far two orders of summation may stray
  bool rounds = false;  // floats become integers: a last place may become a whole step
  // Integers of a launch, by VAR: at their largest first, then half of that, then the smallest ones. One, empty, if there are no VARs.
  std::vector<std::vector<i64>> sizes{{}};

  // How the slots lie is for the caller to fill in.
  static MeasureSubject of(UOp ast);
};

struct MeasuredProgram {
  std::vector<u8> object;
  std::string entry;
  i64 tasks = 1;
  std::vector<Layout> layouts;  // by slot
};

struct MeasureJob {
  MeasureSubject subject;
  MeasuredProgram base;       // its results count as right
  MeasuredProgram candidate;  // none if its object is empty: then the base is timed
  f64 best_ns = 0;            // of all so far: three times slower is not timed on; 0: none
  bool compare = false;       // both are timed in turns

  std::vector<u8> bytes() const;
  static MeasureJob parse(std::span<const u8> bytes);
};

struct Measured {
  // Of one launch with all its tasks on one thread, the least of several. Of a kernel with VARs: as if each size's share of the base's time
  // were the share at the largest (half of the weight is the largest one's).
  f64 ns = 0;
  f64 base_ns = 0;  // compare: the same of the base
  f64 ratio = 0;    // compare: the median over turns of candidate / base
  i64 runs = 0;

  std::vector<u8> bytes() const;
  static Measured parse(std::span<const u8> bytes);
};

// The child's side. Serves jobs that MeasureJob::bytes wrote.
Result<std::vector<u8>> measure_bytes(std::span<const u8> job);

}  // namespace tg
