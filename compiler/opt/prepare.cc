#include "opt/prepare.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/loops.h"
#include "rules/symbolic.h"

namespace tg {

std::vector<UOp> loops_of(UOp u) { return closed_ranges(u); }

UOp with_loops(UOp u, const std::vector<UOp>& loops, std::span<const UOp> src) {
  size_t fixed = src.size() - loops_of(u).size();
  std::vector<UOp> s(src.begin(), src.begin() + long(fixed));
  s.insert(s.end(), loops.begin(), loops.end());
  return Arena::current().make(u.op(), u.dtype(), s, u.node()->arg);
}

i64 next_row(UOp ast) {
  i64 next = 0;
  for (UOp u : toposort(ast))
    if (u.is(Op::Row)) next = std::max(next, u.arg<RowArg>().number + 1);
  return next;
}

UOp physical_offset(const Kernel& k, UOp index) {
  UOp base = memory_of(index);
  if (!base.is(Op::Param)) return index.src(1);
  return simplify(k.slots[size_t(base.arg_int())].layout.offset(index.src().subspan(1), base.src()));
}

bool reads_constant(const Kernel& k, UOp index) {
  UOp base = memory_of(index);
  return base.is(Op::Param) && k.slots[size_t(base.arg_int())].constant;
}

UOp at_largest(UOp u) {
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp x : toposort(u))
    if (x.is(Op::Var)) map.push_back({x, x.src(1)});
  if (map.empty()) return u;
  // Loops stay what they are: only how the address moves with them is asked for.
  Memo<UOp> to;
  for (auto [a, b] : map) to[a] = b;
  for (UOp x : toposort(u)) {
    if (to[x]) continue;
    std::vector<UOp> src;
    for (UOp s : x.src()) src.push_back(to[s]);
    to[x] = x.is(Op::Range) || x.nsrc() == 0 || std::equal(src.begin(), src.end(), x.src().begin()) ? x : with_src(x, src);
  }
  return simplify(to[u]);
}

namespace {

bool closes(UOp u) { return u.in(Op::Reduce | Op::Fold | Op::Store); }

// Rebuilds the kernel with some ranges read as expressions and some lists of loops changed.
UOp rebuild(UOp ast, const std::map<u32, UOp>& value, const std::function<std::vector<UOp>(UOp, std::vector<UOp>)>& loops) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    if (auto it = value.find(u.id()); it != value.end()) {
      to[u] = it->second;
      continue;
    }
    std::vector<UOp> src;
    bool same = true;
    std::vector<UOp> closed = closes(u) ? loops_of(u) : std::vector<UOp>{};
    for (size_t i = 0; i < u.nsrc(); i++) {
      bool loop = i + closed.size() >= u.nsrc();
      src.push_back(loop ? u.src(i) : to[u.src(i)]);
      same &= src.back() == u.src(i);
    }
    if (closes(u)) {
      std::vector<UOp> now = loops(u, closed);
      if (now != closed) {
        to[u] = with_loops(u, now, src);
        continue;
      }
    }
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

i64 next_axis(UOp ast) {
  i64 n = 0;
  for (UOp u : toposort(ast))
    if (u.is(Op::Range)) n = std::max(n, u.arg<RangeArg>().id + 1);
  return n;
}

bool ordered(const Kernel& k, UOp r) { return std::find(k.ordered.begin(), k.ordered.end(), r.arg<RangeArg>().id) != k.ordered.end(); }

// Every LOAD whose address depends on r, and every STORE in its loop, is done only where `inside` holds.
UOp gate_accesses(UOp ast, UOp r, UOp inside) {
  Memo<UOp> to;
  Memo<u8> sees;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    sees[u] = u == r;
    for (UOp s : u.src()) src.push_back(to[s]), sees[u] |= sees[s];
    if (u.is(Op::Load) && sees[u.src(0)]) {
      if (u.nsrc() == 1) src.push_back(inside), src.push_back(konst(u.dtype(), 0));
      else src[1] = src[1] & inside;
    }
    if (u.is(Op::Store) && sees[u]) {
      if (u.nsrc() > 2 && !u.src(2).is(Op::Range)) src[2] = src[2] & inside;
      else src.insert(src.begin() + 2, inside);
    }
    bool same = src.size() == u.nsrc() && std::equal(src.begin(), src.end(), u.src().begin());
    to[u] = same ? u : src.size() == u.nsrc() ? with_src(u, src) : Arena::current().make(u.op(), u.dtype(), src, u.node()->arg);
  }
  return to[ast];
}

// n / d where the size d divides the size n for sure: both are products of numbers and VARs. Null: it may not, or is all or one of n.
UOp quotient(UOp n, UOp d) {
  if (n.is_const() && d.is_const()) return d.as_int() > 1 && d.as_int() < n.as_int() && n.as_int() % d.as_int() == 0 ? idx(n.as_int() / d.as_int()) : UOp{};
  if (!is_uniform(n) || !is_uniform(d) || n == d || d.is_const(1)) return {};
  if (d.is_const() && d.as_int() > 1)
    if (std::optional<UOp> q = divide_exact(n, d.as_int())) return simplify(*q);  // a VAR with a multiple
  Sum a = sum_of(n), b = sum_of(d);
  if (a.c || b.terms.size() > 1 || a.terms.size() != 1) return {};
  i64 ca = a.terms[0].a, cb = b.terms.empty() ? b.c : b.terms[0].a;
  if (cb <= 0 || ca % cb || (!b.terms.empty() && b.c)) return {};
  std::vector<UOp> left = factors(a.terms[0].x);
  if (!b.terms.empty())
    for (UOp f : factors(b.terms[0].x)) {
      auto it = std::find(left.begin(), left.end(), f);
      if (it == left.end()) return {};
      left.erase(it);
    }
  UOp q = idx(ca / cb);
  for (UOp f : left) q = q * f;
  return q.is_const(1) ? UOp{} : simplify(q);
}

// Does an axis of what is indexed lie in several pieces? Constants are packed as they are read.
bool in_panels(const Kernel& k, UOp index) {
  UOp base = memory_of(index);
  if (!base.is(Op::Param) || reads_constant(k, index)) return false;
  const std::vector<LayoutPiece>& p = k.slots[size_t(base.arg_int())].layout.pieces;
  for (size_t i = 0; i < p.size(); i++)
    for (size_t j = 0; j < i; j++)
      if (p[i].axis == p[j].axis && p[i].factor > 1 && p[j].factor > 1) return true;
  return false;
}

// A range read as r/c and r%c becomes two loops.
bool split_digits(Kernel& k) {
  // The largest divisor first: r/49 and (r%49)/7 are three loops in two steps.
  UOp best, c;
  std::vector<UOp> roots{k.ast};
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Index) && in_panels(k, u)) roots.push_back(physical_offset(k, u));
  for (UOp u : toposort(roots)) {
    if (!u.in(Op::FloorDiv | Op::FloorMod)) continue;
    UOp r = u.src(0);
    if (!r.is(Op::Range) || ordered(k, r) || !quotient(r.src(0), u.src(1))) continue;
    if (!c || most(u.src(1)) > most(c)) best = r, c = u.src(1);
  }
  if (!best) return false;
  i64 id = best.arg<RangeArg>().id, hi = next_axis(k.ast);
  UOp times = quotient(best.src(0), c);
  std::map<u32, UOp> value;
  std::map<u32, std::vector<UOp>> loops;
  for (UOp u : toposort(k.ast)) {
    if (!u.is(Op::Range) || u.arg<RangeArg>().id != id || u.src(0) != best.src(0)) continue;
    RangeArg a = u.arg<RangeArg>(), b = a;
    a.id = hi, b.id = hi + 1;
    UOp ra = range(times, a), rb = range(c, b);
    value[u.id()] = ra * c + rb;
    loops[u.id()] = {ra, rb};
  }
  k.ast = simplify(rebuild(k.ast, value, [&](UOp, std::vector<UOp> l) {
    std::vector<UOp> out;
    for (UOp r : l) {
      auto it = loops.find(r.id());
      if (it == loops.end()) out.push_back(r);
      else out.insert(out.end(), it->second.begin(), it->second.end());
    }
    return out;
  }));
  return true;
}

// An output range whose places in blocks of c (r % c) are told apart by name, as where(r % c == 0, ..), becomes a loop over blocks and one over
// places, so that the latter can be unrolled. The last block may reach beyond the end: nothing is read or stored there.
bool split_places(Kernel& k) {
  constexpr i64 kMostPlaces = 8;
  std::vector<UOp> topo = toposort(k.ast);
  for (UOp u : topo) {
    if (!u.is(Op::Eq) || !u.src(0).is(Op::FloorMod) || !u.src(1).is_const() || !u.src(0).src(1).is_const()) continue;
    UOp r = u.src(0).src(0);
    i64 c = u.src(0).src(1).as_int();
    if (!r.is(Op::Range) || !r.src(0).is_const() || ordered(k, r) || c < 2 || c > kMostPlaces || c >= r.src(0).as_int()) continue;
    bool stores = true;
    for (UOp x : topo) {
      if (x.is(Op::Range) && x != r && x.arg<RangeArg>().id == r.arg<RangeArg>().id) stores = false;
      if (!x.in(Op::Reduce | Op::Fold)) continue;
      for (UOp l : loops_of(x)) stores &= l != r;
    }
    if (!stores) continue;
    i64 n = r.src(0).as_int(), id = next_axis(k.ast);
    RangeArg a = r.arg<RangeArg>(), b = a;
    a.id = id, b.id = id + 1;
    UOp block = range(idx((n + c - 1) / c), a), place = range(idx(c), b);
    std::map<u32, UOp> value{{r.id(), block * idx(c) + place}};
    k.ast = simplify(rebuild(k.ast, value, [&](UOp, std::vector<UOp> l) {
      auto it = std::find(l.begin(), l.end(), r);
      if (it != l.end()) {
        *it = place;
        l.insert(it, block);
      }
      return l;
    }));
    if (n % c) k.ast = simplify(gate_accesses(k.ast, place, lt(block * idx(c) + place, idx(n))));
    return true;
  }
  return false;
}

bool fills_row(UOp store) { return store.is(Op::Store) && memory_of(store.src(0)).is(Op::Row); }

// Output loops in the order in which the output lies in memory, those that reduces are computed for first; reduce loops likewise by the
// largest stride of what they read.
void order_loops(Kernel& k) {
  std::vector<UOp> topo = toposort(k.ast);
  Memo<std::vector<UOp>> deps;
  deps[k.ast];
  std::vector<UOp> row;   // ranges that some reduce depends on from outside
  Memo<i64> rows;         // by range: how many rows are filled in it
  rows[k.ast];
  for (UOp u : topo) {
    std::vector<UOp> d;
    if (u.is(Op::Range)) d.push_back(u);
    for (UOp s : u.src())
      for (UOp r : deps[s])
        if (std::find(d.begin(), d.end(), r) == d.end()) d.push_back(r);
    if (closes(u)) {
      std::vector<UOp> l = loops_of(u);
      std::erase_if(d, [&](UOp r) { return std::find(l.begin(), l.end(), r) != l.end(); });
      if (!u.is(Op::Store))
        for (UOp r : d) row.push_back(r);
      else if (fills_row(u))
        for (UOp r : d) rows[r]++;
    }
    deps[u] = d;
  }
  auto stride_in = [&](UOp below, UOp r) {
    i64 most = 0;
    for (UOp u : toposort(below))
      if (u.is(Op::Index)) {
        auto l = linear_in(at_largest(physical_offset(k, u)), r);
        if (!l) continue;
        // What varies most in memory that is not free to be packed decides; constants only break ties.
        i64 f = std::abs(l->factor);
        most = std::max(most, reads_constant(k, u) ? std::min<i64>(f, 1) : f * 2);
      }
    return most;
  };
  k.ast = rebuild(k.ast, {}, [&](UOp u, std::vector<UOp> l) {
    if (std::any_of(l.begin(), l.end(), [&](UOp r) { return ordered(k, r); })) return l;
    if (!k.ordered.empty() && u.is(Op::Store) && k.ast.nsrc() > 1) return l;  // stores that share a loop share it as it stands
    UOp from = u.is(Op::Store) ? u.src(0) : u;
    std::vector<std::pair<i64, UOp>> key;
    for (UOp r : l) {
      bool outer = u.is(Op::Store) && std::find(row.begin(), row.end(), r) != row.end();
      i64 outermost = u.is(Op::Store) ? rows[r] : 0;  // a loop that more rows wait for stands outside the others
      key.push_back({(outermost ? outermost << 51 : outer ? i64(1) << 50 : 0) + stride_in(from, r), r});
    }
    std::stable_sort(key.begin(), key.end(), [](auto& a, auto& b) { return a.first > b.first; });
    std::vector<UOp> out;
    for (auto& [s, r] : key) out.push_back(r);
    return out;
  });
}

// Two neighbouring loops that every access walks as one become one.
bool merge_pair(Kernel& k) {
  std::vector<UOp> topo = toposort(k.ast);
  for (UOp u : topo) {
    if (!closes(u) || u.is(Op::Fold)) continue;
    std::vector<UOp> l = loops_of(u);
    for (size_t i = 0; i + 1 < l.size(); i++) {
      UOp a = l[i], b = l[i + 1];
      if (ordered(k, a) || ordered(k, b) || !is_uniform(a.src(0)) || !b.src(0).is_const()) continue;
      RangeArg aa = a.arg<RangeArg>(), ba = b.arg<RangeArg>();
      // Axes of several loops (rows shared by phases) stay as they are.
      bool shared = false;
      for (UOp x : topo)
        if (x.is(Op::Range) && x != a && x != b && (x.arg<RangeArg>().id == aa.id || x.arg<RangeArg>().id == ba.id)) shared = true;
      if (shared || aa.kind != ba.kind) continue;
      i64 n = b.src(0).as_int();
      // Read in nothing but addresses, and there by steps that continue each other.
      Memo<u8> sees;
      bool ok = true;
      for (UOp x : topo) {
        u8 s = x == a || x == b;
        for (UOp y : x.src()) s |= sees[y];
        if (x.is(Op::Index) && s) {
          UOp off = physical_offset(k, x);
          auto fa = linear_in(off, a), fb = linear_in(off, b);
          if (!fa || !fb || fa->factor != fb->factor * n) ok = false;
          s = 0;
        }
        if (closes(x)) {
          std::vector<UOp> xl = loops_of(x);
          bool ha = std::find(xl.begin(), xl.end(), a) != xl.end(), hb = std::find(xl.begin(), xl.end(), b) != xl.end();
          if (ha != hb) ok = false;
          for (size_t j = 0; ha && hb && j < xl.size(); j++)
            if (xl[j] == a && (j + 1 >= xl.size() || xl[j + 1] != b)) ok = false;
          for (size_t j = 0; j + xl.size() < x.nsrc(); j++)
            if (sees[x.src(j)]) ok = false;
          s = 0;
        } else if (s && !x.in(Op::Range | Op::Index | Op::Load)) {
          // Arithmetic that leads into an address is fine; it is checked there. Anything that escapes is seen by the store or reduce.
        }
        if (x.is(Op::Load)) s = 0;
        if (x.is(Op::Load) && x.nsrc() > 1 && sees[x.src(1)]) ok = false;
        sees[x] = s;
      }
      if (!ok) continue;
      RangeArg fa = aa;
      fa.id = next_axis(k.ast);
      UOp f = range(simplify(a.src(0) * n), fa);
      std::map<u32, UOp> value{{a.id(), f / idx(n)}, {b.id(), f % idx(n)}};
      k.ast = rebuild(k.ast, value, [&](UOp, std::vector<UOp> x) {
        auto it = std::find(x.begin(), x.end(), a);
        if (it != x.end()) {
          *it = f;
          x.erase(std::find(x.begin(), x.end(), b));
        }
        return x;
      });
      k.ast = simplify(k.ast);
      return true;
    }
  }
  return false;
}

}  // namespace

Kernel prepare(Kernel k) {
  for (int i = 0; i < 32 && split_places(k); i++) {}
  for (int i = 0; i < 32 && split_digits(k); i++) {}
  order_loops(k);
  for (int i = 0; i < 32 && merge_pair(k); i++) {}
  return k;
}

}  // namespace tg
