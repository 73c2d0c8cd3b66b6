// A kernel and the Opts applied to it. Immutable: an Opt gives a new Kernel, or the reason why not.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "target/layout.h"
#include "target/target.h"

namespace tg {

enum class OptKind : u8 { Upcast, Vector, Unroll, Thread, Swap, PadTo, Tile, Pack, Peel, Keep, Tc, Stage, Few, Prefetch, Trim, Bypass };
inline constexpr const char* kOptNames[] = {"UPCAST", "VECTOR", "UNROLL", "THREAD", "SWAP", "PADTO", "TILE", "PACK", "PEEL", "KEEP", "TC", "STAGE", "FEW", "PREFETCH", "TRIM", "BYPASS"};

// Those whose target is a slot, and which have no argument; those that have one.
constexpr bool names_slot(OptKind k) { return k == OptKind::Pack || k == OptKind::Stage || k == OptKind::Prefetch || k == OptKind::Bypass; }
constexpr bool has_arg(OptKind k) { return !names_slot(k) && k != OptKind::Trim; }

// target: axis id (PACK, STAGE, PREFETCH, BYPASS: slot). arg, arg2 by kind, see opts.cc. part: which piece of the axis (0: what remains of it).
struct Opt {
  OptKind kind;
  i64 target = 0, arg = 0, arg2 = 0;
  u8 part = 0;
  std::string str() const;  // "UPCAST 2/0 6"
  bool operator==(const Opt&) const = default;
};
std::string opts_text(const std::vector<Opt>& v);
Result<std::vector<Opt>> parse_opts(std::string_view s);  // inverse of opts_text

struct Slot {
  Layout layout;
  std::vector<i64> dims;
  // How much of each side of an axis is border, which holds `fill`; empty: none. In slot 0 this kernel stores it.
  std::vector<i64> before, after;
  u64 fill = 0;           // bits of a CONST
  bool constant = false;  // its layout is free: the packer writes it as the kernel reads it
  bool past = false;      // stored past the caches (BYPASS)
  bool ahead = false;     // asked for before it is read (codegen/prefetch.cc)
};

struct Kernel {
  UOp ast;                      // SINK, kernel form
  std::vector<Slot> slots;      // by PARAM slot
  std::vector<i64> ordered;     // axis ids that no Opt touches
  std::vector<Opt> opts;
  const Target* target = nullptr;

  Result<Kernel> with(const Opt& o) const;
};

// One axis (id and part) of a kernel as its loops stand.
struct Axis {
  i64 id, part;
  AxisKind kind;                // of its first RANGE
  i64 size;                     // the largest where it is free; -1 where it depends on other loops
  bool free;                    // its size is known in the run only
  bool reduce;                  // every RANGE of it is a reduce loop
  bool output;                  // some RANGE of it is an output loop
  std::vector<UOp> ranges;

  UOp extent() const { return ranges[0].src(0); }
  bool divides(i64 n) const;    // is the size a multiple of n for sure?
  i64 rest(i64 n) const { return free ? (divides(n) ? 0 : n - 1) : size % n; }  // of the size by n; the most that it can be
};
std::vector<Axis> axes(UOp ast);  // output axes in the order of the loops of the first STORE, then the others

// The kernel with a list of Opts, or which of them is refused and why.
Result<Kernel> with_opts(Kernel k, std::string_view opts);
Result<Kernel> with_opts(Kernel k, const std::vector<Opt>& opts);

// The hand-written choice for one kernel.
Kernel heuristics(Kernel k);
// Its last step: THREAD by the estimated work, for a kernel without tasks.
Kernel with_tasks(Kernel k);

}  // namespace tg
