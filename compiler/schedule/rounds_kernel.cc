// The kernel of a RECUR. Everything that a round stores lies twice, by the parity of the round: carried values are read where the round before
// left them, what a round makes for itself is read behind its store. In order:
//   the first values of what is carried;
//   the loop of the rounds, and in it a loop nest for each stored value of the body, nests of equal loops together;
//   the last values of what is carried.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "rules/symbolic.h"
#include "schedule/build.h"
#include "schedule/rounds.h"

namespace tg {
namespace {

constexpr i64 kFresh = 1 << 20;  // axes from here on belong to one nest of the kernel; before it is finished

class Maker {
 public:
  Maker(const RoundsBody& b, const RoundsHooks& hooks) : b_(b), hooks_(hooks), realized_(realize(b.body, ranges_)) {}

  RoundsKernel run() {
    make_buffers();
    for (i64 i = 0; i < b_.carried + b_.scans; i++) result_at_.push_back(bool(hooks_.result(i, zeros(i))));
    for (i64 i = 0; i < b_.carried; i++) store_init(i);
    if (!b_.count.is_const(0)) {
      for (UOp u : realized_.roots) round(u);
      // Outputs of the body that are no values of their own.
      for (i64 i = 0; i < b_.carried + b_.scans; i++)
        if (!realized_.stored[b_.body.src(size_t(i))]) plain_output(i);
    }
    for (i64 i = 0; i < b_.carried; i++) store_last(i);
    return finish();
  }

 private:
  struct Stored {
    UOp buffer;       // PARAM (2, dims of the value)
    bool next;        // lies where the next round looks for it, else where this round does
    UOp store;        // once it is made
    UOp value;        // and what it stores, at the coordinates of the nest
  };
  // A loop nest of a round: values of one shape, each of which reads those before it at its own coordinates only.
  struct Nest {
    std::vector<UOp> loops;
    std::vector<UOp> roots;
    bool reduces = false;
  };

  Shape zeros(i64 result) const {
    size_t n = rank(b_.body.src(size_t(result))) + (result >= b_.carried ? 1 : 0);
    return Shape(n, idx(0));
  }
  static Shape twice(UOp u) {
    Shape d = shape(u);
    d.insert(d.begin(), idx(2));
    return d;
  }

  void make_buffers() {
    for (i64 i = 0; i < b_.carried; i++) carried_.push_back(hooks_.scratch(b_.body.src(size_t(i)).dtype(), twice(b_.body.src(size_t(i)))));
    for (UOp u : realized_.roots) {
      Stored& s = stored_[u.id()];
      s.next = true;
      for (i64 i = 0; i < b_.carried && !s.buffer; i++)
        if (b_.body.src(size_t(i)) == u) s.buffer = carried_[size_t(i)];
      if (s.buffer) continue;
      s.next = false;
      DType d = u.dtype().kind == Kind::Index ? DType(Kind::I64) : u.dtype();
      s.buffer = hooks_.scratch(d, twice(u));
    }
  }

  UOp parity(bool next) const { return (next ? b_.round + 1 : b_.round) % idx(2); }

  static UOp at(UOp buffer, UOp half, const Shape& index, std::span<const UOp> after = {}) {
    UOp base = buffer;
    if (!after.empty()) {
      std::vector<UOp> src{buffer};
      src.insert(src.end(), after.begin(), after.end());
      base = node(Op::After, buffer.dtype(), std::span<const UOp>(src));
    }
    std::vector<UOp> src{base, half};
    for (UOp i : index) src.push_back(simplify(i));
    return node(Op::Index, buffer.dtype(), std::span<const UOp>(src));
  }
  static UOp read(UOp address, UOp gate, UOp alternative, DType d) {
    if (gate && !gate.is_const(1)) return cast(node(Op::Load, address.dtype(), {address, gate, cast(alternative, address.dtype())}), d);
    return cast(node(Op::Load, address.dtype(), {address}), d);
  }
  static UOp write(UOp address, UOp value, std::span<const UOp> loops) {
    std::vector<UOp> src{address, cast(value, address.dtype())};
    for (UOp r : loops)
      if (r.is(Op::Range)) src.push_back(r);
    return node(Op::Store, Kind::Void, std::span<const UOp>(src));
  }

  // v and its loops with axes that no other nest has: those of the body's own are numbered by root.
  UOp renumbered(UOp v, std::vector<UOp>* loops) {
    std::map<i64, i64> number;
    Memo<UOp> to;
    auto visit = [&](UOp root) {
      for (UOp u : toposort(root)) {
        if (to[u]) continue;
        std::vector<UOp> src;
        bool same = true;
        for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s;
        if (u.is(Op::Range) && u != b_.round && u.arg<RangeArg>().id < kFresh) {
          RangeArg a = u.arg<RangeArg>();
          auto [it, fresh] = number.try_emplace(a.id, fresh_);
          if (fresh) fresh_++;
          a.id = it->second;
          to[u] = range(src[0], a);
        } else {
          to[u] = same ? u : with_src(u, src);
        }
      }
      return to[root];
    };
    for (UOp& r : *loops) r = visit(r);
    return visit(v);
  }

  // Loops over the dims of a value, for this kernel alone.
  std::vector<UOp> fresh_loops(const Shape& dims) {
    std::vector<UOp> out;
    for (UOp d : dims) out.push_back(d.is_const(1) ? idx(0) : range(d, {fresh_++, 0, 0, AxisKind::Loop}));
    return out;
  }

  // A first value that no round reads is nobody's: there are rounds.
  bool reads_carried(i64 i) const {
    for (UOp u : toposort(b_.body))
      if (u.is(Op::Param) && u.arg_int() == i) return true;
    return false;
  }
  void store_init(i64 i) {
    if (!b_.count.is_const(0) && !reads_carried(i)) return;
    std::vector<UOp> loops = fresh_loops(shape(b_.inits[size_t(i)]));
    Shape index(loops.begin(), loops.end());
    UOp s = write(at(carried_[size_t(i)], idx(0), index), hooks_.init(i, index), loops);
    before_.push_back(s);
    phases_.push_back({{s}, index});
  }

  // Reads of a value by the nest whose coordinates are `own`; *beside: some value of the nest is read elsewhere than there.
  UOp load(UOp u, const Shape& index, UOp gate, UOp alternative, const Nest& nest, const Shape& own, bool* beside) {
    if (u.is(Op::Param) && u.arg_int() >= b_.carried) return hooks_.load(b_.inputs[size_t(u.arg_int() - b_.carried)], index, gate, alternative);
    if (own_axis_ && (index.empty() || own.empty() || index[0] != own[0])) own_axis_ = false;
    if (u.is(Op::Param)) return read(at(carried_[size_t(u.arg_int())], parity(false), index, before_), gate, alternative, u.dtype());
    const Stored& s = stored_.at(u.id());
    if (std::find(nest.roots.begin(), nest.roots.end(), u) != nest.roots.end()) {
      bool same = !gate && index == own;
      if (!same) *beside = true;
      else return cast(s.value, u.dtype());
    }
    TG_CHECK(s.store, "a round reads what it makes later: ", u.str());
    return read(at(s.buffer, parity(s.next), index, std::span(&s.store, 1)), gate, alternative, u.dtype());
  }

  UOp value(UOp u, const Shape& index, const Nest& nest, bool* beside, bool root) {
    Builder b(u, &ranges_, &realized_,
              [&](UOp n, const Shape& i, UOp gate, UOp alt) { return load(n, i, gate, alt, nest, index, beside); });
    return simplify(root ? b.compute(u, index) : b.value(u, index));
  }

  static bool own_reduce(UOp v) {  // not behind an AFTER: what it waits for has loops of its own
    Memo<u8> seen;
    std::vector<UOp> todo{v};
    while (!todo.empty()) {
      UOp u = todo.back();
      todo.pop_back();
      if (seen[u] || u.is(Op::After)) continue;
      seen[u] = 1;
      if (u.in(Op::Reduce | Op::Fold)) return true;
      todo.insert(todo.end(), u.src().begin(), u.src().end());
    }
    return false;
  }

  // One stored value of the body: in the nest before it if that has its loops, else in a nest of its own.
  void round(UOp u) {
    bool axis = own_axis_;
    if (!nest_.roots.empty() && !nest_.reduces && same_shape(shape(nest_.roots[0]), shape(u))) {
      bool beside = false;
      Shape index(nest_.loops.begin(), nest_.loops.end());
      UOp v = value(u, index, nest_, &beside, true);
      if (!beside && !own_reduce(v)) return add(u, v, index);
      own_axis_ = axis;
    }
    nest_ = {};
    nest_.loops = ranges_.output_ranges(u);
    bool beside = false;
    UOp v = value(u, Shape(nest_.loops.begin(), nest_.loops.end()), nest_, &beside, true);
    v = renumbered(v, &nest_.loops);
    nest_.reduces = own_reduce(v);
    Shape index(nest_.loops.begin(), nest_.loops.end());
    phases_.push_back({{}, index});
    add(u, v, index);
  }

  void add(UOp u, UOp v, const Shape& index) {
    Stored& s = stored_.at(u.id());
    s.value = v;
    std::vector<UOp> loops{b_.round};
    loops.insert(loops.end(), nest_.loops.begin(), nest_.loops.end());
    s.store = write(at(s.buffer, parity(s.next), index), v, loops);
    nest_.roots.push_back(u);
    std::vector<UOp>& stores = phases_.back().stores;
    stores.push_back(s.store);
    if (s.next) next_.push_back(s.store);
    for (i64 i = 0; i < b_.carried; i++)
      if (b_.body.src(size_t(i)) == u && carried_[size_t(i)] != s.buffer) {
        stores.push_back(write(at(carried_[size_t(i)], parity(true), index), v, loops));
        next_.push_back(stores.back());
      }
    scan(u, v, index, loops);
  }

  void scan(UOp u, UOp v, const Shape& index, std::span<const UOp> loops) {
    for (i64 i = b_.carried; i < b_.carried + b_.scans; i++) {
      if (b_.body.src(size_t(i)) != u || !result_at_[size_t(i)]) continue;
      Shape to = index;
      to.insert(to.begin(), b_.round);
      phases_.back().stores.push_back(write(hooks_.result(i, to), v, loops));
    }
  }

  // A carried value that stays or is another's, or a scan of one.
  void plain_output(i64 i) {
    UOp u = b_.body.src(size_t(i));
    nest_ = {};
    nest_.loops = fresh_loops(shape(u));
    Shape index(nest_.loops.begin(), nest_.loops.end());
    bool beside = false;
    UOp v = value(u, index, nest_, &beside, false);
    std::vector<UOp> loops{b_.round};
    loops.insert(loops.end(), nest_.loops.begin(), nest_.loops.end());
    phases_.push_back({{}, index});
    if (i < b_.carried) {
      phases_.back().stores.push_back(write(at(carried_[size_t(i)], parity(true), index), v, loops));
      next_.push_back(phases_.back().stores.back());
    } else if (result_at_[size_t(i)]) {
      Shape to = index;
      to.insert(to.begin(), b_.round);
      phases_.back().stores.push_back(write(hooks_.result(i, to), v, loops));
    }
    nest_ = {};
  }

  void store_last(i64 i) {
    if (!result_at_[size_t(i)]) return;
    std::vector<UOp> loops = fresh_loops(shape(b_.inits[size_t(i)]));
    Shape index(loops.begin(), loops.end());
    std::vector<UOp> after = before_;
    after.insert(after.end(), next_.begin(), next_.end());
    UOp from = read(at(carried_[size_t(i)], simplify(b_.count % idx(2)), index, after), {}, {}, b_.inits[size_t(i)].dtype());
    phases_.push_back({{write(hooks_.result(i, index), from, loops)}, index});
  }

  // Is the first axis of everything one that no value looks across, as two directions are? Then it is one loop around all. What reduces read
  // must move along it, or it would be read again for each.
  UOp common_axis() {
    if (!own_axis_) return {};
    UOp n;
    for (const Phase& p : phases_) {
      if (p.index.empty() || !p.index[0].is(Op::Range) || (n && p.index[0].src(0) != n)) return {};
      n = p.index[0].src(0);
      for (UOp s : p.stores)
        for (UOp u : toposort(s.src(1))) {
          if (!u.in(Op::Reduce | Op::Fold)) continue;
          for (UOp x : toposort(u))
            if (x.is(Op::Load)) {
              bool moves = false;
              for (UOp c : x.src(0).src().subspan(1))
                for (UOp r : toposort(c)) moves |= r.is(Op::Range) && first_.count(r.id());
              if (!moves) return {};
            }
        }
    }
    return n;
  }

  RoundsKernel finish() {
    for (const Phase& p : phases_)
      if (!p.index.empty() && p.index[0].is(Op::Range)) first_[p.index[0].id()] = true;
    UOp common = common_axis(), shared;
    // Axes are numbered from 0: the rounds, the common one, and the others as they come.
    i64 next = 0;
    UOp rounds = range(b_.round.src(0), {next++, 0, 0, AxisKind::Loop});
    if (b_.count.is_const(1)) rounds = idx(0);  // no loop
    if (common) shared = range(common, {next++, 0, 0, AxisKind::Loop});
    std::map<i64, i64> number;
    std::vector<UOp> all;
    for (const Phase& p : phases_) all.insert(all.end(), p.stores.begin(), p.stores.end());
    std::vector<UOp> sink{node(Op::Sink, Kind::Void, std::span<const UOp>(all))};
    Memo<UOp> to;
    for (UOp u : toposort(sink)) {
      if (u == b_.round) {
        to[u] = rounds;
        continue;
      }
      if (u.is(Op::Range) && common && first_.count(u.id())) {
        to[u] = shared;
        continue;
      }
      std::vector<UOp> src;
      for (UOp s : u.src()) src.push_back(to[s]);
      if (u.is(Op::Range)) {
        RangeArg a = u.arg<RangeArg>();
        auto [it, fresh] = number.try_emplace(a.id, next);
        if (fresh) next++;
        a.id = it->second;
        to[u] = range(src[0], a);
      } else if (u.is(Op::Store)) {
        // The common loop is the outermost.
        auto it = std::find(src.begin() + 2, src.end(), shared);
        if (it != src.end()) {
          src.erase(it);
          src.insert(src.begin() + 2, shared);
        }
        src.erase(std::remove_if(src.begin() + 2, src.end(), [](UOp s) { return !s.is(Op::Range); }), src.end());
        to[u] = node(Op::Store, Kind::Void, std::span<const UOp>(src));
      } else {
        to[u] = with_src(u, src);
      }
    }
    UOp out = to[sink[0]];
    return {{out.src().begin(), out.src().end()}, {0}};
  }

  struct Phase {
    std::vector<UOp> stores;
    Shape index;  // the coordinates that it stores at, without the round
  };

  const RoundsBody& b_;
  const RoundsHooks& hooks_;
  RangeMaker ranges_;
  Realized realized_;
  std::vector<UOp> carried_;          // PARAMs
  std::map<u32, Stored> stored_;
  std::vector<u8> result_at_;         // is it wanted
  std::vector<UOp> before_, next_;    // stores of first values; of next ones
  std::vector<Phase> phases_;
  Nest nest_;                         // the one that may take the next value
  i64 fresh_ = kFresh;
  bool own_axis_ = true;              // every read so far of what a round stores is at the reader's own place along the first axis
  std::map<u32, bool> first_;         // loops over the first axis
};

}  // namespace

RoundsKernel rounds_kernel(const RoundsBody& b, const RoundsHooks& hooks) { return Maker(b, hooks).run(); }

}  // namespace tg
