// Which values get buffers. A value with one reader is computed where it is read, unless a reduce, a transcendental or arithmetic inside a
// contraction would then run more often than once an element; a value with several readers is stored if computing it again costs more.
#pragma once
#include <map>
#include <vector>

#include "ir/regions.h"
#include "schedule/cone.h"

namespace tg {

// A place where a node is read while the kernel of `root` runs.
struct Access {
  UOp root;
  Shape index;
  std::vector<UOp> open;  // the RANGEs of the loops around it
  bool in_reduce = false, in_contraction = false;
};

// The ranges that a REDUCE (or FOLD) inside a kernel runs over, one a reduced axis. Those of a reduce over the same row as the kernel's own
// inner dims share axis ids with them.
class RangeMaker {
 public:
  // Loops over the dims of a root.
  std::vector<UOp> output_ranges(UOp root);
  const std::vector<UOp>& reduce_ranges(UOp root, UOp reduce, const Shape& index);
  // The loops that fill the row of a value (Asked::row), one an axis, and the row's number. index: of the value; only its first axes, those that a
  // row is filled anew for, count.
  struct RowPhase {
    std::vector<UOp> loops;
    i64 number = 0;
  };
  const RowPhase& row(UOp root, UOp value, const Shape& index);

 private:
  struct Key {
    u32 root, value;
    std::vector<u32> index;
    auto operator<=>(const Key&) const = default;
  };
  std::map<u32, std::vector<UOp>> outputs_;
  i64 row_axis(UOp root);
  std::map<u32, i64> next_axis_, next_phase_, row_axis_, next_row_;
  std::map<Key, RowPhase> rows_;
  std::map<Key, std::vector<UOp>> reduces_;
};

// RANGEs on which any of the expressions depends.
std::vector<UOp> ranges_in(std::span<const UOp> exprs);

struct Realized {
  Memo<u8> stored;              // by node: 1 if it has a buffer
  std::vector<UOp> roots;       // the stored nodes, sources first
  Regions regions;
};
// A value that several kernels read and that holds no reduce: stored, or computed again by each, as a rule says.
struct StoredOrNot {
  UOp value;
  i64 readers = 0;
  bool stored = false;  // what the rule says
  Cone cone;
};
// asked_about: gets all of which that rule alone decides.
Realized realize(UOp sink, RangeMaker& ranges, std::vector<StoredOrNot>* asked_about = nullptr);

// What a rewrite of the graph (choice.h) asks of its nodes, by arena.
struct Asked {
  Memo<u8> inlined;      // computed where they are read, however often and however many they are
  Memo<u8> contraction;  // read as a contraction's result is, whatever the op
  // Kept in a row along its last axis: a phase of the kernel computes it once for each place of the axes before, later phases read it. Summed: the
  // sum over the row is made by the loop that fills it.
  enum Row : u8 { None, Kept, Summed };
  Memo<u8> row;
  Memo<u32> together;    // a number for sums over the same axes that one kernel makes in one loop, and for what is made of them; 0: none
  // A row that is a block of several axes: those from `from` on. `planes` of them, the first, number what lies apart in memory.
  struct Block {
    u8 from = 0, planes = 0;
  };
  Memo<Block> block;     // from == 0: the last axis alone
  Memo<u8> whole;        // stored unless its reader goes through it element by element
  enum Keep : u8 { ByRule, Stored, Again };
  Memo<u8> keep;         // of StoredOrNot
  Memo<u8> phases;       // the root of a kernel with such rows: none of its reduces runs along the kernel's own axes
};
void keep_in_kernel(UOp from, UOp until);  // every node below `from`, itself included, down to `until`, not included
void act_as_contraction(UOp u);
void share_loops(std::initializer_list<UOp> sums);  // they and what is made of them, first: one kernel, one loop
void keep_block(UOp u, size_t from, size_t planes);  // Asked::block
// The axes of `u` from here on are its row.
size_t row_from(UOp u);
void carry_asked(UOp from, UOp to);        // to: what a later rewrite makes of `from`
Asked& asked();                            // of the current arena

}  // namespace tg
