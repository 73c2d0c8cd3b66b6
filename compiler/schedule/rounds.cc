#include "schedule/rounds.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "ir/bounds.h"
#include "rules/symbolic.h"
#include "schedule/realize.h"

namespace tg {
namespace {

constexpr i64 kMostWork = i64(1) << 23;  // elements that the reduces of a round go through: beyond, its kernels had better have tasks
constexpr size_t kMostNodes = 400;
constexpr size_t kMostParts = 4;         // of a CONCAT: each element asks which part it is of
constexpr i64 kRoundAxis = 1 << 16;      // of the RANGE that counts rounds in a body; the kernel numbers its axes anew

struct Bodies {
  std::vector<std::unique_ptr<RoundsBody>> list;
};

bool movement(UOp u) { return is_movement(u.op()) && !u.is(Op::Concat); }
// Read as it lies and widened in registers, rather than stored wide.
bool widens(UOp u) { return u.is(Op::Cast) && is_stored(u.src(0).dtype().kind) && bits(u.dtype()) > bits(u.src(0).dtype()); }

class Closer {
 public:
  explicit Closer(UOp loop) : loop_(loop), arg_(loop.arg<LoopArg>()), order_(toposort(loop)) {
    for (UOp u : order_) {
      varies_[u] = (u.is(Op::Carry) && u.arg<CarryArg>().loop == arg_.id) || (u.is(Op::Step) && u.arg_int() == arg_.id);
      loads_[u] = u.in(Op::Param | Op::Constant | Op::Carry | Op::Get) && !(u.is(Op::Get) && u.src(0).is(Op::Fold));
      for (UOp s : u.src()) varies_[u] |= varies_[s], loads_[u] |= loads_[s];
    }
  }

  bool one_call() {
    UOp count = loop_.src(0);
    if (!loop_.src(1).is_const(1) || !loop_.src(arg_.next_go()).is_const(1)) return false;
    if (count.dtype().kind != Kind::Index || loads_[count]) return false;
    // None or one: nothing would depend on the round, and so keep its place in the loop.
    if (!count.is_const() && most(count) <= 1) return false;
    constexpr OpSet kOther = Op::Reduce | Op::Fold | Op::Get | Op::Gather | Op::Contiguous | Op::Iota | Op::Carry | Op::Step | Op::Stack;
    i64 work = 0;
    size_t nodes = 0;
    for (UOp u : order_) {
      if (u == loop_ || !varies_[u]) continue;
      if (!is_elementwise(u.op()) && !movement(u) && !u.in(kOther) && !(u.is(Op::Concat) && u.nsrc() <= kMostParts)) return false;
      if (u.in(Op::Stack | Op::Fold)) continue;
      if (u.dtype().kind != Kind::Index && (u.dtype().kind == Kind::Void || bits(u.dtype()) < 8)) return false;
      nodes++;
      if (u.in(Op::Get | Op::Reduce)) work += most(elems(shape(u.is(Op::Get) ? u.src(0).src(0) : u.src(0))));
      for (UOp d : shape(u))
        if (varies_[d] || loads_[d] || d.is_const(0)) return false;  // of size 0: loops that may not run have no order to keep
    }
    auto stays = [](UOp u) {
      const Shape& s = shape(u);
      return bits(u.dtype()) >= 8 && std::none_of(s.begin(), s.end(), [](UOp d) { return d.is_const(0); });
    };
    std::vector<u8> read(size_t(arg_.carried), 0);
    for (UOp u : order_)
      if (u.is(Op::Carry) && u.arg<CarryArg>().loop == arg_.id) read[size_t(u.arg<CarryArg>().index)] = 1;
    for (i64 i = 0; i < arg_.carried; i++) {
      if (!stays(loop_.src(arg_.init(i)))) return false;
      // The first value of what no round reads has no place before the rounds; it is the last one too if none runs.
      if (!read[size_t(i)] && !count.is_const()) return false;
    }
    for (i64 i = 0; i < arg_.scans; i++)
      if (!stays(loop_.src(arg_.scan(i)))) return false;
    return work <= kMostWork && nodes <= kMostNodes;
  }

  UOp close() {
    b_ = std::make_unique<RoundsBody>();
    b_->carried = arg_.carried, b_->scans = arg_.scans, b_->count = loop_.src(0);
    b_->round = range(b_->count, {kRoundAxis, 0, 0, AxisKind::Loop});
    for (i64 i = 0; i < arg_.carried; i++) b_->inits.push_back(loop_.src(arg_.init(i)));
    std::vector<UOp> out, src{b_->count};
    for (i64 i = 0; i < arg_.carried; i++) out.push_back(inside(loop_.src(arg_.next(i))));
    for (i64 i = 0; i < arg_.scans; i++) out.push_back(inside(loop_.src(arg_.scan(i))));
    b_->body = node(Op::Sink, Kind::Void, std::span<const UOp>(out));
    src.insert(src.end(), b_->inits.begin(), b_->inits.end());
    for (i64 i = 0; i < arg_.scans; i++) {
      Shape s = shape(loop_.src(arg_.scan(i)));
      s.insert(s.begin(), b_->count);
      src.push_back(node(Op::Stack, Kind::Void, std::span<const UOp>(s)));
    }
    src.insert(src.end(), b_->inputs.begin(), b_->inputs.end());
    // The rounds of loops around it that the body sees: where the call belongs is known by its sources alone.
    for (UOp u : toposort(out))
      if (u.is(Op::Step)) src.push_back(u);
    Bodies& all = Arena::current().side<Bodies>();
    all.list.push_back(std::move(b_));
    return node(Op::Recur, Kind::Void, std::span<const UOp>(src), Ints{i64(all.list.size()) - 1, arg_.carried, arg_.scans});
  }

 private:
  // u as the body sees it. What is the same in each round is an input, but for views of one, its widening and arithmetic on indices.
  UOp inside(UOp u) {
    if (to_[u]) return to_[u];
    UOp r;
    if (varies_[u] && u.is(Op::Carry)) {
      r = node(Op::Param, u.dtype(), u.src(), u.arg<CarryArg>().index);
    } else if (varies_[u] && u.is(Op::Step)) {
      r = b_->round;
    } else if (varies_[u] || (loads_[u] && (movement(u) || widens(u)))) {
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(inside(s));
      r = u.is(Op::Concat) ? chosen(u, src) : with_src(u, src);
      carry_asked(u, r);
    } else if (loads_[u]) {
      Shape s = shape(u);
      r = node(Op::Param, u.dtype(), std::span<const UOp>(s), arg_.carried + i64(b_->inputs.size()));
      b_->inputs.push_back(u);
    } else {
      r = u;
    }
    return to_[u] = r;
  }

  // A CONCAT of parts as a kernel has it: each element is the part's in which it stands. It is stored, once a round.
  static UOp chosen(UOp u, const std::vector<UOp>& parts) {
    size_t axis = size_t(u.arg_int());
    const Shape& all = shape(u);
    Shape along(all.size(), idx(1)), none(all.size(), idx(0));
    along[axis] = all[axis];
    UOp place = tensor::expand(tensor::reshape(tensor::iota(all[axis], Kind::I64), along), all), begin = idx(0), r;
    for (UOp p : parts) {
      Shape before = none, after = none;
      UOp end = simplify(begin + shape(p)[axis]);
      before[axis] = begin, after[axis] = simplify(all[axis] - end);
      UOp wide = tensor::pad(p, before, after, konst(p.dtype(), 0));
      r = r ? where(lt(place, cast(begin, Kind::I64)), r, wide) : wide;
      begin = end;
    }
    return tensor::contiguous(r);
  }

  UOp loop_;
  LoopArg arg_;
  std::vector<UOp> order_;
  Memo<u8> varies_, loads_;
  Memo<UOp> to_;
  std::unique_ptr<RoundsBody> b_;
};

}  // namespace

UOp loops_to_rounds(UOp sink) {
  std::vector<UOp> order = toposort(sink);
  if (std::none_of(order.begin(), order.end(), [](UOp u) { return u.is(Op::Loop); })) return sink;
  Memo<UOp> to;
  for (UOp u : order) {
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s;
    UOp v = same ? u : with_src(u, src);
    if (v != u) carry_asked(u, v);
    if (v.is(Op::Loop))
      if (Closer c(v); c.one_call()) v = c.close();
    to[u] = v;
  }
  return to[sink];
}

const RoundsBody& rounds_body(UOp recur) { return *Arena::current().side<Bodies>().list[size_t(recur.arg_ints()[0])]; }

}  // namespace tg
