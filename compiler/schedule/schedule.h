// Cuts the tensor graph into kernels. In: Graph (tensor form). Out: calls in order, each with its kernel AST in kernel form (logical
// coordinates), and the buffers they read and write, with layouts and places in memory.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "target/layout.h"
#include "target/target.h"

namespace tg {

struct Buffer {
  enum Kind : u8 { Input, Output, Constant, Scratch, State } kind = Scratch;
  u32 index = 0;              // of the graph's input, output, constant or state pair
  DType dtype;
  Shape shape;                // sizes, logical: index expressions
  std::vector<i64> dims;      // the largest that they can be: what is planned for
  Layout layout;              // Scratch: chosen by layouts.cc; Input and Output: row-major; Constant: row-major until a kernel packs it
  std::vector<i64> before, after;  // border inside dims, at each side of an axis; empty: none (borders.cc)
  u64 fill = 0;               // its value, bits of a CONST
  i64 bytes = 0;              // at the largest sizes
  std::vector<u32> lies_on;   // not Constant: buffers below it in the arena; its offset is the aligned maximum of their ends
  i64 offset = -1;            // that offset at the largest sizes; -1: not used

  bool is_free() const;       // some size is no constant
  UOp bytes_of_run() const;   // bytes at the sizes of a run, an index expression
  UOp bytes_to_plan(const Graph& g) const;  // at least these, of what is known as the run begins: a size that the run finds later is its largest
};

struct Call {
  UOp ast;                    // SINK, kernel form; PARAM slot i is buffers[i]; slots written come first
  std::vector<u32> buffers;
  u32 outputs = 1;            // the first `outputs` slots are written
  std::string name;           // what the kernel does, for people: "conv_1x64x56x56"
  bool border = false;        // this call stores the border of slot 0 too
  std::vector<i64> ordered;   // axis ids whose order is part of the meaning: no Opt touches them
};

// What a run does, in order. Conditions and values are index expressions (or bools of them) over VARs.
struct Step {
  enum Kind : u8 {
    Call,   // calls[call]
    Read,   // var becomes element 0 of `buffer`, an i32 or i64
    Set,    // var becomes value
    If,     // then if value is not 0, else otherwise
    While,  // then as long as value is not 0
  } kind = Call;
  u32 call = 0, buffer = 0;
  UOp var, value;
  i64 most = 0;               // While: rounds; more are an error of the run
  std::vector<Step> then, otherwise;
};

struct Schedule {
  std::shared_ptr<Arena> arena;      // of the ASTs: the graph's own
  std::vector<Buffer> buffers;
  std::vector<Call> calls;           // in the order of the steps, each in one of them
  std::vector<Step> steps;
  std::vector<UOp> vars;             // every VAR that sizes and calls read, those of the graph's inputs first
  i64 arena_bytes = 0, lower_bound_bytes = 0;  // planned peak of Scratch, and the most that is alive at once
};

struct LayoutPick;      // layout_choice.h
struct LayoutQuestion;

// picks: layouts that are asked for.
Schedule schedule(const Graph& g, const Target& target);
Schedule schedule(const Graph& g, const Target& target, std::span<const LayoutPick> picks);

// Parts of schedule(), in its order.
UOp prepare_control(UOp sink);                        // control.cc
UOp copy_padded_inputs(UOp sink);                     // padded_inputs.cc
void read_one_hot_rows(Schedule& s, const Graph& g);    // one_hot.cc
void update_in_place(Schedule& s);                    // inplace.cc
void make_borders(Schedule& s);                       // borders.cc
void choose_layouts(Schedule& s, const Target& target, std::span<const LayoutPick> picks, std::vector<LayoutQuestion>* close);  // layouts.cc
void share_in_place(Schedule& s);                     // inplace.cc
void plan_memory(Schedule& s);                        // memory.cc

}  // namespace tg
