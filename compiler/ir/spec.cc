#include "ir/spec.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/loops.h"
#include "ir/regions.h"
#include "ir/tensor.h"

namespace tg {
namespace {

struct Row {
  OpSet ops;
  const char* legal;  // ends the sentence "<Op> ..."
  bool (*holds)(UOp);
};

// --- parts of predicates ----------------------------------------------------------------------------------------------------------------
bool scalar(UOp u) { return u.dtype().lanes == 1; }
bool is_index(UOp u) { return u.dtype() == DType(Kind::Index); }
bool is_value(UOp u) { return u.dtype().kind != Kind::Void; }
bool is_effect(UOp u) { return u.in(Op::Store | Op::Group | Op::Barrier | Op::End | Op::Sink); }
bool all(std::span<const UOp> v, bool (*f)(UOp)) { return std::all_of(v.begin(), v.end(), f); }
bool ascending(const Ints& v, size_t below) {
  for (size_t i = 0; i < v.size(); i++)
    if (v[i] < 0 || v[i] >= i64(below) || (i && v[i] <= v[i - 1])) return false;
  return true;
}
bool reduces(i64 kind, DType d) {
  if (kind < 0 || kind > i64(ReduceKind::MaxAny) || is_storage(d.kind) || d.kind == Kind::Void) return false;
  return is_float(d) ? ReduceKind(kind) < ReduceKind::And || ReduceKind(kind) == ReduceKind::MaxAny : ReduceKind(kind) <= ReduceKind::Or;
}
bool is_memory(UOp u) { return without_waits(u).in(Op::Param | Op::Row | Op::Local); }

constexpr OpSet kIntOnly = Op::FloorDiv | Op::FloorMod | Op::And | Op::Or | Op::Xor | Op::Shl | Op::Shr | Op::Not;
constexpr OpSet kFloatOnly = kTranscendental | Op::Sqrt | Op::Recip | Op::Floor | Op::Ceil | Op::Trunc | Op::Round;

bool alu_holds(UOp u) {
  bool where = u.is(Op::Where);
  DType d = u.src(where ? 1 : 0).dtype();
  for (size_t i = where ? 1 : 0; i < u.nsrc(); i++)
    if (u.src(i).dtype() != d) return false;
  if (where) return u.src(0).dtype() == DType(Kind::Bool, d.lanes) && u.dtype() == d && d.kind != Kind::Void;
  if (u.dtype() != (kComparison.has(u.op()) ? DType(Kind::Bool, d.lanes) : d)) return false;
  if (d.kind == Kind::Void || is_storage(d.kind)) return false;
  return !(is_float(d) ? kIntOnly : kFloatOnly).has(u.op());
}
bool convert_holds(UOp u) {
  DType a = u.src(0).dtype(), b = u.dtype();
  if (a.kind == Kind::Void || b.kind == Kind::Void || a.lanes != b.lanes) return false;
  return u.is(Op::Cast) || bits(a) == bits(b);
}
bool lookup_holds(UOp u) {
  DType d = u.dtype();
  size_t n = u.arg_ints().size();
  return (d.kind == Kind::I32 || d.kind == Kind::U32) && u.src(0).dtype() == d && n > 1 && !(n & (n - 1)) &&
         std::all_of(u.arg_ints().begin(), u.arg_ints().end(), [&](i64 v) { return wrap_int(d.kind, v) == v; });
}
bool const_holds(UOp u) {
  Kind k = u.dtype().kind;
  return k != Kind::Void && (is_float(k) || wrap_int(k, i64(u.arg_bits())) == i64(u.arg_bits()));
}
bool var_holds(UOp u) {
  return is_index(u) && all(u.src(), [](UOp s) { return s.is_const() && is_index(s); }) && u.src(0).as_int() <= u.src(1).as_int() && u.src(2).as_int() > 0;
}
bool placeholder_holds(UOp u) {
  return u.arg_ints().size() == 3 && u.arg_ints()[0] >= 0 && u.arg_ints()[0] <= PlaceholderArg::Side1 && u.arg_ints()[1] >= 0 && is_value(u);
}
// Sources up to the ranges: the states' initial values, steps and merges have one dtype each.
bool fold_holds(UOp u) {
  if (u.arg_ints().size() < 2 || u.dtype().kind != Kind::Void) return false;
  FoldArg a = u.arg<FoldArg>();
  if (a.inputs < 1 || a.states < 1 || i64(u.nsrc()) < a.inputs + 3 * a.states) return false;
  for (i64 i = 0; i < a.states; i++) {
    UOp init = u.src(a.inputs + i);
    if (!init.is_const() || u.src(a.inputs + a.states + i).dtype() != init.dtype() || u.src(a.inputs + 2 * a.states + i).dtype() != init.dtype()) return false;
  }
  return true;
}
bool same_shapes(UOp u, size_t from, size_t to);
bool condition(UOp u) { return u.dtype() == DType(Kind::Bool) && shape(u).empty(); }
bool loop_holds(UOp u) {
  if (u.arg_ints().size() != 3 || u.dtype().kind != Kind::Void) return false;
  LoopArg a = u.arg<LoopArg>();
  if (a.carried < 0 || a.scans < 0 || u.nsrc() != a.sources() || !is_int(u.src(0).dtype()) || !shape(u.src(0)).empty()) return false;
  if (!condition(u.src(1)) || !condition(u.src(a.next_go())) || (a.scans && !is_index(u.src(0)))) return false;
  for (i64 i = 0; i < a.carried; i++) {
    UOp x = u.src(a.init(i)), y = u.src(a.next(i));
    if (!is_stored(x.dtype().kind) || x.dtype() != y.dtype() || !same_shape(shape(x), shape(y))) return false;
  }
  for (i64 i = 0; i < a.scans; i++)
    if (!is_stored(u.src(a.scan(i)).dtype().kind)) return false;
  return true;
}
bool branch_holds(UOp u) {
  i64 n = u.arg_int();
  if (n < 1 || i64(u.nsrc()) != 1 + 2 * n || u.dtype().kind != Kind::Void || !condition(u.src(0))) return false;
  for (size_t i = 1; i <= size_t(n); i++) {
    UOp x = u.src(i), y = u.src(i + size_t(n));
    if (!is_stored(x.dtype().kind) || x.dtype() != y.dtype() || !same_shape(shape(x), shape(y))) return false;
  }
  return true;
}
bool tensor_get_holds(UOp u) {
  UOp f = u.src(0);
  if (u.arg_int() < 0) return false;
  if (f.is(Op::Branch)) return u.arg_int() < f.arg_int() && u.dtype() == f.src(size_t(1 + u.arg_int())).dtype();
  if (f.is(Op::Loop)) {
    LoopArg a = f.arg<LoopArg>();
    return u.arg_int() < a.carried + a.scans && u.dtype() == f.src(u.arg_int() < a.carried ? a.init(u.arg_int()) : a.scan(u.arg_int() - a.carried)).dtype();
  }
  return false;
}
bool get_holds(UOp u) {
  if (!u.src(0).is(Op::Fold)) return false;
  FoldArg a = u.src(0).arg<FoldArg>();
  return u.arg_int() >= 0 && u.arg_int() < a.states && u.dtype() == u.src(0).src(a.inputs + u.arg_int()).dtype();
}
bool same_shapes(UOp u, size_t from, size_t to) {
  for (size_t i = from + 1; i < to; i++)
    if (!same_shape(shape(u.src(i)), shape(u.src(from)))) return false;
  return true;
}
bool stack_of_rank(UOp s, size_t n) { return s.is(Op::Stack) && s.nsrc() == n; }
bool keeps_dtype(UOp u) { return u.dtype() == u.src(0).dtype() && is_value(u); }

bool movement_holds(UOp u) {
  if (u.nsrc() == 0 || !keeps_dtype(u)) return false;
  size_t n = rank(u.src(0));
  Ints v;
  if (info(u.op()).arg == ArgKind::Ints) v.assign(u.arg_ints().begin(), u.arg_ints().end());
  switch (u.op()) {
    case Op::Reshape: {
      if (!u.src(1).is(Op::Stack)) return false;
      UOp a = elems(shape(u.src(0))), b = elems(shape(u));
      return a == b || !a.is_const() || !b.is_const();
    }
    case Op::Expand: {
      if (!stack_of_rank(u.src(1), n)) return false;
      for (size_t i = 0; i < n; i++)
        if (shape(u.src(0))[i] != shape(u)[i] && !shape(u.src(0))[i].is_const(1)) return false;
      return true;
    }
    case Op::Permute:
      if (v.size() != n) return false;
      std::sort(v.begin(), v.end());
      return ascending(v, n);
    case Op::Pad: return stack_of_rank(u.src(1), n) && stack_of_rank(u.src(2), n) && u.src(3).is_const() && u.src(3).dtype() == u.dtype();
    case Op::Shrink: return stack_of_rank(u.src(1), n) && stack_of_rank(u.src(2), n) && stack_of_rank(u.src(3), n);
    case Op::Flip: return ascending(v, n);
    case Op::Window: {
      if (v.size() % 4) return false;
      WindowArg w = u.arg<WindowArg>();
      Ints axes = w.axes;
      std::sort(axes.begin(), axes.end());
      bool positive = true;
      for (const Ints* p : {&w.k, &w.stride, &w.dilation}) positive &= std::all_of(p->begin(), p->end(), [](i64 x) { return x > 0; });
      return positive && ascending(axes, n);
    }
    case Op::Concat:
      for (UOp s : u.src())
        if (s.dtype() != u.dtype() || rank(s) != n) return false;
      for (UOp s : u.src())
        for (size_t i = 0; i < n; i++)
          if (i64(i) != u.arg_int() && shape(s)[i] != shape(u)[i]) return false;
      return u.arg_int() >= 0 && u.arg_int() < i64(n);
    default: return false;
  }
}

OpSet alu_ops() {
  OpSet s;
  for (int i = 0; i < kOps; i++)
    if (is_alu(Op(i))) s = s | Op(i);
  return s;
}
const OpSet kAlu = alu_ops();
constexpr OpSet kMovement = Op::Reshape | Op::Permute | Op::Expand | Op::Pad | Op::Shrink | Op::Flip | Op::Window | Op::Concat;

// clang-format off
// --- rows ---------------------------------------------------------------------------------------------------------------------------------
const Row kCommon[] = {
  {kAlu,                   "has sources of one dtype that its kind of arithmetic takes (Where: bool, x, x) and the dtype that follows", alu_holds},
  {Op::Cast | Op::Bitcast, "keeps lanes, Bitcast also bits",            convert_holds},
  {Op::Const,              "holds a value of its dtype",                const_holds},
  {Op::Var,                "is an index with constant min <= max and multiple > 0", var_holds},
};

const Row kTensor[] = {
  {Op::Sink,               "collects values",                           [](UOp u) { return u.dtype().kind == Kind::Void && all(u.src(), is_value); }},
  {Op::Stack,              "lists index expressions",                   [](UOp u) { return all(u.src(), is_index); }},
  {Op::Param | Op::Constant, "has index dims, a number and a stored kind", [](UOp u) { return u.arg_int() >= 0 && is_stored(u.dtype().kind) && all(u.src(), is_index); }},
  {Op::Placeholder,        "has a role and an index",                   placeholder_holds},
  {Op::Reduce,             "has one source of its dtype and ascending axes of it", [](UOp u) {
    if (u.nsrc() != 1 || u.arg_ints().empty() || !keeps_dtype(u)) return false;
    ReduceArg a = u.arg<ReduceArg>();
    return reduces(u.arg_ints()[0], u.dtype()) && !a.axes.empty() && ascending(a.axes, rank(u.src(0))); }},
  {Op::Fold,               "has inputs of one shape, constant initial values, steps and merges of their dtypes, ascending axes", [](UOp u) {
    if (!fold_holds(u)) return false;
    FoldArg a = u.arg<FoldArg>();
    return i64(u.nsrc()) == a.inputs + 3 * a.states && same_shapes(u, 0, a.inputs) && !a.axes.empty() && ascending(a.axes, rank(u.src(0))); }},
  {Op::Get,                "names a state of a FOLD, or a result of a LOOP or BRANCH, and has its dtype", [](UOp u) { return get_holds(u) || tensor_get_holds(u); }},
  {Op::Loop,               "has rounds, conditions of shape (), carried values that keep dtype and shape, stored kinds; with scans its count is an index", loop_holds},
  {Op::Branch,             "has a condition of shape () and two lists of values of the same dtypes and shapes", branch_holds},
  {Op::Carry,              "has index dims, a LOOP and a number, and a stored kind", [](UOp u) { return u.arg_ints().size() == 2 && u.arg_ints()[1] >= 0 && is_stored(u.dtype().kind) && all(u.src(), is_index); }},
  {Op::Step,               "is an index below an index",                [](UOp u) { return is_index(u) && is_index(u.src(0)); }},
  {kMovement,              "keeps the dtype; its argument fits the shape", movement_holds},
  {Op::Iota,               "counts to an index in an integer dtype",    [](UOp u) { return is_int(u.dtype()) && is_index(u.src(0)); }},
  {Op::Gather,             "has an integer index of one shape for each axis", [](UOp u) {
    return u.nsrc() >= 2 && keeps_dtype(u) && u.nsrc() == 1 + rank(u.src(0)) && all(u.src().subspan(1), [](UOp s) { return is_int(s.dtype()); }) &&
           same_shapes(u, 1, u.nsrc()); }},
  {Op::Scatter,            "has updates, and an integer index of their shape for each axis", [](UOp u) {
    return u.nsrc() >= 3 && keeps_dtype(u) && u.nsrc() == 2 + rank(u.src(0)) && u.src(1).dtype() == u.dtype() && u.arg_int() >= 0 &&
           u.arg_int() <= i64(ScatterKind::Min) && all(u.src().subspan(2), [](UOp s) { return is_int(s.dtype()); }) && same_shapes(u, 1, u.nsrc()); }},
  {Op::Sort,               "gives i64 along an axis",                   [](UOp u) {
    return u.dtype() == DType(Kind::I64) && u.arg_ints().size() == 2 && u.arg_ints()[0] >= 0 && u.arg_ints()[0] < i64(rank(u.src(0))); }},
  {Op::Scan,               "keeps the dtype and runs along an axis",    [](UOp u) {
    return keeps_dtype(u) && u.arg_ints().size() == 4 && reduces(u.arg_ints()[0], u.dtype()) && u.arg_ints()[1] >= 0 && u.arg_ints()[1] < i64(rank(u.src(0))); }},
  {Op::Contiguous,         "keeps the dtype",                           keeps_dtype},
};

const Row kKernel[] = {
  {Op::Sink | Op::Group,   "collects effects",                          [](UOp u) { return u.dtype().kind == Kind::Void && all(u.src(), is_effect); }},
  {Op::After,              "orders memory after effects",               [](UOp u) { return u.nsrc() >= 1 && is_memory(u.src(0)) && u.dtype() == u.src(0).dtype() && all(u.src().subspan(1), is_effect); }},
  {Op::Barrier,            "waits for effects",                         [](UOp u) { return all(u.src(), is_effect); }},
  {Op::Param,              "has index dims and a number",               [](UOp u) { return u.arg_int() >= 0 && is_stored(u.dtype().kind) && all(u.src(), is_index); }},
  {Op::Row | Op::Local,    "has an index size, a number and a place",   [](UOp u) { return is_index(u.src(0)) && u.arg_ints().size() == 2 && is_value(u); }},
  {Op::Range,              "has an index size and a RangeArg",          [](UOp u) {
    return is_index(u) && is_index(u.src(0)) && u.arg_ints().size() == 4 && u.arg_ints()[3] >= 0 && u.arg_ints()[3] <= i64(AxisKind::Dot); }},
  {Op::Placeholder,        "has a role and an index",                   placeholder_holds},
  {Op::Index,              "has an index for each dim of its buffer, or one offset where the buffer has no dims", [](UOp u) {
    if (u.nsrc() == 0 || !is_memory(u.src(0)) || u.dtype() != u.src(0).dtype()) return false;
    size_t n = without_waits(u.src(0)).nsrc(), got = u.nsrc() - 1;
    return all(u.src().subspan(1), is_index) && (got == n || (n == 0 && got == 1)); }},
  {Op::Load,               "takes (INDEX) or (INDEX, bool, alternative) and has its dtype", [](UOp u) {
    return (u.nsrc() == 1 || u.nsrc() == 3) && u.src(0).is(Op::Index) && u.dtype() == u.src(0).dtype() &&
           (u.nsrc() == 1 || (u.src(1).dtype() == DType(Kind::Bool) && u.src(2).dtype() == u.dtype())); }},
  {Op::Store,              "takes (INDEX, value of its dtype), perhaps a bool, then RANGEs", [](UOp u) {
    if (u.nsrc() < 2 || !u.src(0).is(Op::Index) || u.src(1).dtype() != u.src(0).dtype() || u.dtype().kind != Kind::Void) return false;
    size_t from = u.nsrc() > 2 && u.src(2).dtype() == DType(Kind::Bool) ? 3 : 2;
    return all(u.src().subspan(from), [](UOp s) { return s.is(Op::Range); }); }},
  {Op::Reduce,             "has values of its dtype, then RANGEs",      [](UOp u) {
    size_t i = 1;
    if (u.nsrc() == 0 || u.arg_ints().size() != 1 || !keeps_dtype(u) || !reduces(u.arg_ints()[0], u.dtype())) return false;
    while (i < u.nsrc() && !u.src(i).is(Op::Range))
      if (u.src(i++).dtype() != u.dtype()) return false;
    return all(u.src().subspan(i), [](UOp s) { return s.is(Op::Range); }); }},
  {Op::Fold,               "has inputs, constant initial values, steps and merges of their dtypes, then RANGEs", [](UOp u) {
    if (!fold_holds(u)) return false;
    FoldArg a = u.arg<FoldArg>();
    return all(u.src().subspan(a.inputs + 3 * a.states), [](UOp s) { return s.is(Op::Range); }); }},
  {Op::Get,                "names a state of a FOLD and has its dtype", get_holds},
  {Op::Lookup,             "has numbers of its dtype, i32 or u32, which its source has too, 2^k of them", lookup_holds},
};

const Row kLinear[] = {
  {Op::Sink | Op::Group,   "collects effects",                          [](UOp u) { return u.dtype().kind == Kind::Void; }},
  {Op::Fence,              "has PARAMs",                                [](UOp u) { return u.dtype().kind == Kind::Void && all(u.src(), [](UOp s) { return s.is(Op::Param); }); }},
  {Op::Barrier,            "is an effect",                              [](UOp u) { return u.dtype().kind == Kind::Void; }},
  {Op::Param,              "has no sources and a number",               [](UOp u) { return u.nsrc() == 0 && u.arg_int() >= 0 && scalar(u) && is_stored(u.dtype().kind); }},
  {Op::Special,            "has an integer extent and a number from 0 to 6", [](UOp u) { return scalar(u) && is_int(u.dtype()) && is_int(u.src(0).dtype()) && u.arg_int() >= 0 && u.arg_int() <= 6; }},
  {Op::Range,              "counts in the dtype of its size",           [](UOp u) { return scalar(u) && is_int(u.dtype()) && u.src(0).dtype() == u.dtype() && u.arg_ints().size() == 4; }},
  {Op::End,                "closes a RANGE",                            [](UOp u) { return u.nsrc() >= 1 && u.src(0).is(Op::Range); }},
  {Op::Reg,                "is a value's place",                        is_value},
  {Op::Row | Op::Local,    "has an integer size, a number and a place", [](UOp u) { return is_int(u.src(0).dtype()) && scalar(u.src(0)) && u.arg_ints().size() == 2 && is_value(u); }},
  {Op::Index,              "is (buffer, integer offsets) of the buffer's dtype", [](UOp u) { return u.nsrc() == 2 && is_memory(u.src(0)) && u.dtype() == u.src(0).dtype() && is_int(u.src(1).dtype()); }},
  {Op::Load,               "takes (REG), (INDEX) or (INDEX, bool, alternative); offsets, gate and alternative have one lane or its lanes", [](UOp u) {
    UOp from = without_waits(u.src(0));
    if (from.is(Op::Reg)) return u.nsrc() == 1 && u.dtype() == from.dtype();
    if (!from.is(Op::Index) || u.dtype().kind != from.dtype().kind || (u.nsrc() != 1 && u.nsrc() != 3)) return false;
    auto fits = [&](UOp s) { return s.dtype().lanes == 1 || s.dtype().lanes == u.dtype().lanes; };
    return fits(from.src(1)) && (u.nsrc() == 1 || (u.src(1).dtype().kind == Kind::Bool && fits(u.src(1)) && u.src(2).dtype().kind == u.dtype().kind && fits(u.src(2)))); }},
  {Op::Store,              "takes (REG, value), (INDEX, value) or (INDEX, value, bool); offsets and gate have one lane or the value's lanes", [](UOp u) {
    if (u.nsrc() < 2) return false;
    UOp to = without_waits(u.src(0)), v = u.src(1);
    if (to.is(Op::Reg)) return u.nsrc() == 2 && v.dtype() == to.dtype();
    if (!to.is(Op::Index) || v.dtype().kind != to.dtype().kind || u.nsrc() > 3) return false;
    auto fits = [&](UOp s) { return s.dtype().lanes == 1 || s.dtype().lanes == v.dtype().lanes; };
    return fits(to.src(1)) && (u.nsrc() == 2 || (u.src(2).dtype().kind == Kind::Bool && fits(u.src(2)))); }},
  {Op::Prefetch,           "names an INDEX of one lane",                [](UOp u) { return u.dtype().kind == Kind::Void && u.src(0).is(Op::Index) && scalar(u.src(0).src(1)); }},
  {Op::Lookup,             "has numbers of its dtype, i32 or u32, which its source has too, 2^k of them", lookup_holds},
  {Op::Broadcast,          "gives a scalar lanes",                      [](UOp u) { return scalar(u.src(0)) && u.src(0).dtype().kind == u.dtype().kind && !scalar(u); }},
  {Op::Lanes,              "counts lanes in an integer dtype",          [](UOp u) { return is_int(u.dtype()); }},
  {Op::HReduce,            "makes one of the lanes of its source",      [](UOp u) { return scalar(u) && u.src(0).dtype().kind == u.dtype().kind && reduces(u.arg_int(), u.dtype()); }},
  {Op::Extract,            "names a lane of its source",                [](UOp u) { return scalar(u) && u.src(0).dtype().kind == u.dtype().kind && u.arg_int() >= 0 && u.arg_int() < u.src(0).dtype().lanes; }},
  {Op::Pack,               "has a scalar for each lane",                [](UOp u) { return u.nsrc() == u.dtype().lanes && std::all_of(u.src().begin(), u.src().end(), [&](UOp s) { return s.dtype() == u.dtype().scalar(); }); }},
  {Op::Dot,                "has a sum of its dtype, and operands of the sum's lanes, or one, times a group of 2 or 4", [](UOp u) {
    if (u.nsrc() != 3 || u.src(2).dtype() != u.dtype()) return false;
    i64 a = u.src(0).dtype().lanes, b = u.src(1).dtype().lanes, n = u.dtype().lanes, group = std::max(a, b) / n;
    return (group == 2 || group == 4) && std::max(a, b) == group * n && (a == group || a == group * n) && (b == group || b == group * n); }},
  {Op::Shuffle,            "has a lane number of (a, b) for each lane", [](UOp u) {
    DType d = u.src(0).dtype();
    return u.src(1).dtype() == d && u.dtype().kind == d.kind && u.arg_ints().size() == u.dtype().lanes &&
           std::all_of(u.arg_ints().begin(), u.arg_ints().end(), [&](i64 k) { return k >= 0 && k < 2 * d.lanes; }); }},
};
// clang-format on

const char* form_name(Spec s) { return s == Spec::Tensor ? "tensor" : s == Spec::Kernel ? "kernel" : "linear"; }

std::string node_violation(Spec s, UOp u) {
  if (s != Spec::Linear && !scalar(u)) return str(form_name(s), " form: ", info(u.op()).name, " has ", u.dtype().lanes, " lanes: ", u.str());
  std::span<const Row> own = s == Spec::Tensor ? std::span<const Row>(kTensor) : s == Spec::Kernel ? std::span<const Row>(kKernel) : std::span<const Row>(kLinear);
  for (std::span<const Row> rows : {std::span<const Row>(kCommon), own})
    for (const Row& r : rows) {
      if (!r.ops.has(u.op())) continue;
      if (r.holds(u)) return "";
      return str(form_name(s), " form: ", info(u.op()).name, ' ', r.legal, ": ", u.str());
    }
  return str(form_name(s), " form: there is no ", info(u.op()).name, ": ", u.str());
}

// The RANGEs that a kernel-form node closes.
bool closes(UOp u, UOp r) {
  if (!u.in(Op::Reduce | Op::Fold | Op::Store) || !r.is(Op::Range)) return false;
  size_t from = u.is(Op::Fold) ? u.arg<FoldArg>().inputs + 3 * u.arg<FoldArg>().states : u.is(Op::Reduce) ? 1 : 2;
  return std::find(u.src().begin() + std::min(from, u.nsrc()), u.src().end(), r) != u.src().end();
}

// Every RANGE is closed by what runs it, and a slot is one buffer.
std::string kernel_violation(UOp root, std::span<const UOp> order) {
  Memo<std::vector<UOp>> open;
  open[root];
  std::map<i64, UOp> slots;
  for (UOp u : order) {
    if (u.is(Op::Param)) {
      UOp& p = slots.try_emplace(u.arg_int(), u).first->second;
      if (p != u) return str("kernel form: slot ", u.arg_int(), " is two buffers: ", p.str(), " and ", u.str());
    }
    if (u.id() > root.id()) open[u];
    std::vector<UOp> here;
    if (u.is(Op::Range)) here.push_back(u);
    for (UOp s : u.src())
      for (UOp r : open[s])
        if (!closes(u, r) && std::find(here.begin(), here.end(), r) == here.end()) here.push_back(r);
    open[u] = std::move(here);
  }
  if (root.is(Op::Sink) && !open[root].empty()) return str("kernel form: no STORE or REDUCE closes ", open[root][0].str());
  return "";
}

}  // namespace

std::string violation(Spec s, UOp root) {
  TG_CHECK(s != Spec::Linear, "the linear form is a list");
  std::vector<UOp> order = toposort(root);
  for (UOp u : order) {
    std::string v = node_violation(s, u);
    if (!v.empty()) return v;
    // Shapes that do not meet are found while the shape is worked out; bodies of FOLDs have none.
    if (s == Spec::Tensor && is_elementwise(u.op())) shape(u);
  }
  return s == Spec::Kernel ? kernel_violation(root, order) : loop_violation(order);
}

std::string violation(std::span<const UOp> list) {
  Memo<i64> loop_of;        // 1 + the number of the loop in which a value stands; 0: not in the list yet
  std::vector<UOp> open;    // RANGEs
  std::vector<i64> number;  // of the open loops, the whole list first
  i64 loops = 0;
  number.push_back(loops);
  std::string bad;
  auto use = [&](UOp s, UOp user) {
    if (!loop_of[s]) bad = str("linear form: ", s.str(), " is used before its place in the list by ", user.str());
    else if (is_value(s) && !s.in(Op::Reg | Op::Param | Op::Row | Op::Local) && std::find(number.begin(), number.end(), loop_of[s] - 1) == number.end())
      bad = str("linear form: ", s.str(), " is used outside its loop by ", user.str());
  };
  for (UOp u : list) {
    if (u.is(Op::After)) continue;
    if (bad = node_violation(Spec::Linear, u); !bad.empty()) return bad;
    for (UOp s : u.src()) {
      if (s.is(Op::After))
        for (UOp t = s; t.is(Op::After); t = t.src(0)) {
          if (!t.src(0).is(Op::After)) use(t.src(0), u);
        }
      else
        use(s, u);
      if (!bad.empty()) return bad;
    }
    if (u.is(Op::End)) {
      if (open.empty() || open.back() != u.src(0)) return str("linear form: END closes a loop that is not the innermost: ", u.str());
      open.pop_back(), number.pop_back();
    }
    if (u.is(Op::Range)) open.push_back(u), number.push_back(++loops);
    loop_of[u] = number.back() + 1;
  }
  return open.empty() ? "" : str("linear form: no END closes ", open.back().str());
}

void check(Spec s, UOp root, std::string_view after) {
  std::string v = violation(s, root);
  TG_CHECK(v.empty(), after.empty() ? "" : "after ", after, after.empty() ? "" : ": ", v);
}
void check(std::span<const UOp> list, std::string_view after) {
  std::string v = violation(list);
  TG_CHECK(v.empty(), after.empty() ? "" : "after ", after, after.empty() ? "" : ": ", v);
}

}  // namespace tg
