// The making of a schedule: buffers for what realize() stores, and a call for each. schedule.cc is the order of its steps.
#pragma once
#include <map>

#include "rules/symbolic.h"
#include "schedule/build.h"
#include "schedule/schedule.h"

namespace tg {

// Where a stored value lies: a buffer, or a box of one (a branch of a CONCAT, a round's part of what a LOOP gives).
struct Place {
  u32 buffer = 0;
  Shape begin;  // empty: at the origin
  Shape lead;   // coordinates before those of the value
};

class Scheduler {
 public:
  explicit Scheduler(const Graph& g) : g_(g) { s_.arena = g.arena; }
  Schedule run();

 private:
  // Sources first, and before all what the sizes that the run finds are made of, size by size: what has such a size comes after it is read.
  std::vector<UOp> measured_first();
  void measure(UOp size, UOp value);
  // Are the sizes of a buffer of this shape known when u is computed?
  bool sizes_are_known(const Shape& sizes, UOp u);
  // Calls as the steps meet them.
  void order_calls();
  u32 add_buffer(Buffer::Kind k, u32 index, DType d, const Shape& sizes);
  void place_outputs();
  // A state that grows is made where it is kept (grown()).
  void place_grown_states();
  void place(UOp u);
  u32 constant_buffer(i64 index);
  Place place_of(UOp u);
  // All of u, as the value `from` or, without one, computed, in one call, which is named after its work if it has no name.
  void emit_plain(UOp u, UOp from, const Place& to, std::string name = {});
  void emit(UOp u);

  // emit_call.cc: one call
  struct Params {
    std::vector<u32> buffers;
    UOp slot(const Schedule& s, u32 buffer) {
      auto it = std::find(buffers.begin(), buffers.end(), buffer);
      if (it == buffers.end()) it = buffers.insert(buffers.end(), buffer);
      return tensor::param(it - buffers.begin(), s.buffers[buffer].dtype, s.buffers[buffer].shape);
    }
  };
  u32 region(UOp u) { return realized_.regions.of[u]; }
  static Shape shifted(const Shape& index, const Shape& begin);
  UOp index_of(Params& p, const Place& pl, const Shape& index);
  UOp load(Params& p, UOp u, const Shape& index, UOp gate, UOp alternative);
  Builder builder(UOp root, Params& p);
  UOp store(Params& p, const Place& pl, const Shape& index, UOp value, std::span<const UOp> ranges, UOp gate = {});
  void finish(std::vector<UOp> stores, Params& p, u32 outputs, std::string name, std::vector<i64> ordered = {});
  UOp without_steps(UOp u);
  void copy_into(UOp u, const Place& p);
  static std::string shape_name(UOp u);
  static bool empty(UOp u);
  // The kind of work, for the kernel's name.
  std::string work_name(UOp ast);
  // The loops in which rows are filled come first: inside them the others read what is there.
  static std::vector<UOp> rows_outside(UOp value, std::vector<UOp> loops);
  // The part of a CONCAT that is there already: a box of a kept value, in its place.
  bool is_there(UOp s, const Place& box);
  void copy_output(u32 i);

  // emit_regions.cc: loops, branches and loops in one kernel
  // A result's own place: an output's, or a buffer.
  Place place_result(UOp owner, i64 i);
  // The value is made where it is wanted, if it is made then.
  void place_in(UOp u, const Place& p, u32 where);
  Place part_of_round(UOp loop, i64 scan);
  // A kept value (CARRY, PARAM) of which `next` is the first n elements along an axis, new ones behind these, and what lies behind them in the kept
  // value; nobody else reads more than the first n. Then `next` may be made in its place: what is new is all that is stored.
  UOp grown(UOp next);
  void place_loop(UOp u);
  void place_branch(UOp u);
  Step read(UOp variable, UOp u) { return {.kind = Step::Read, .buffer = place_of(u).buffer, .var = variable}; }
  static Step set(UOp variable, UOp value) { return {.kind = Step::Set, .var = variable, .value = value}; }
  void emit_loop(UOp u);
  void emit_branch(UOp u);
  // All results of a RECUR.
  void emit_rounds(UOp recur);

  // emit_own.cc: ops with kernels of their own
  void emit_concat(UOp u);
  // x is copied, then the updates are stored one after another, in their order.
  void emit_scatter(UOp u);
  // out[a] = out[a-1] op x[a]: one step an element.
  void emit_scan(UOp u);
  // A bitonic network over keys and positions in scratch, padded to a power of two. Ties go by position, so the order is stable.
  void emit_sort(UOp u);
  // Does (k, i) come before (l, j)? Padding (position >= n) is last, NaN is the largest number, equal keys go by position.
  static UOp sorts_before(UOp k, UOp i, UOp l, UOp j, bool descending, UOp n);

  const Graph& g_;
  Schedule s_;
  RangeMaker ranges_;
  Realized realized_;
  std::vector<u32> input_, output_, constant_;  // the graph's, as buffers
  std::vector<u32> state_of_;                    // of each output: the buffer of the state that it becomes
  Memo<u8> placed_;
  Memo<Place> places_;
  Memo<std::vector<UOp>> read_by_;   // CARRYs and PARAMs: by which nodes
  Memo<u32> readers_, known_sizes_;  // known_sizes_: how many of the measured sizes are read before the node is computed
  std::map<std::pair<i64, i64>, Place> carries_;  // by LOOP's number and index
  std::map<i64, UOp> rounds_;                    // by LOOP's number: the variable that counts its rounds, and is their number in the end
  std::vector<std::vector<Step>> steps_;         // by region
  std::vector<Step>* steps_of_call_ = nullptr;   // where the next call belongs
  i64 branches_ = 0;
};

}  // namespace tg
