// The Opts: each changes the axes of a kernel or says why it cannot.
//   UPCAST a n     the innermost n of output axis a become separate nodes: the register tile
//   VECTOR a n     the innermost n of axis a become lanes
//   UNROLL a n     the innermost n of reduce axis a become separate nodes
//   THREAD a n     output axis a is cut into n tasks
//   SWAP a b       the loops of axes a and b change places
//   PADTO a n      axis a runs to the next multiple of n; what lies outside is neither loaded nor stored
//   TILE a n       a is split by n and its outer part becomes the outermost loop; 1: the whole loop moves
//   PACK s         constant slot s lies in the order in which this kernel reads it
//   KEEP v p       row value v is kept in place p between phases, not computed again (keep.cc)
//   STAGE s        what a tile's sum reads of slot s is copied to the stack first, in the order in which it is read (stage.cc)
//   TC a r         the innermost values of reduce axis a become the group of a dot instruction, row r of dot_rows (tc.cc)
//   PEEL a n       the last (size of a) mod n values of output axis a get a copy of the loop nest of their own
//   FEW a n        where free axis a has at most n values a copy of the loop nest does them, whose axes are its own (few.cc)
// A free axis is split where n is known to divide it, as after PADTO and PEEL. UPCAST takes any n there: the copies beyond the end do again what
// the last one does.
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/error.h"
#include "ir/bounds.h"
#include "ir/loops.h"
#include "opt/few.h"
#include "opt/keep.h"
#include "opt/kernel.h"
#include "opt/prepare.h"
#include "opt/stage.h"
#include "opt/tc.h"
#include "rules/symbolic.h"

namespace tg {

std::string Opt::str() const {
  std::string s = tg::str(kOptNames[int(kind)], " ", target);
  if (part) s += tg::str("/", int(part));
  if (kind != OptKind::Pack && kind != OptKind::Stage) s += tg::str(" ", arg);
  if (arg2) s += tg::str(" ", arg2);
  return s;
}
std::string opts_text(const std::vector<Opt>& v) { return join(v, ", "); }

Result<std::vector<Opt>> parse_opts(std::string_view text) {
  using R = Result<std::vector<Opt>>;
  std::vector<Opt> out;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma), rest = one;
    text.remove_prefix(std::min(comma + 1, text.size()));
    auto word = [&] {
      while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
      std::string_view w = rest.substr(0, rest.find(' '));
      rest.remove_prefix(w.size());
      return w;
    };
    bool good = true;
    auto number = [&](std::string_view w, auto* v) {
      auto [end, ec] = std::from_chars(w.data(), w.data() + w.size(), *v);
      good &= ec == std::errc() && end == w.data() + w.size();
    };
    Opt o{};
    std::string_view name = word(), target = word(), arg = word(), arg2 = word();
    size_t kind = 0;
    while (kind < std::size(kOptNames) && kOptNames[kind] != name) kind++;
    if (kind == std::size(kOptNames)) return R::no("no Opt is called ", std::string(name));
    o.kind = OptKind(kind);
    size_t slash = target.find('/');
    number(target.substr(0, slash), &o.target);
    if (slash != target.npos) number(target.substr(slash + 1), &o.part);
    if (o.kind != OptKind::Pack && o.kind != OptKind::Stage) number(arg, &o.arg);
    else good &= arg.empty();
    if (!arg2.empty()) number(arg2, &o.arg2);
    if (!good || !word().empty()) return R::no("not an Opt: ", std::string(one));
    out.push_back(o);
  }
  return out;
}

Result<Kernel> with_opts(Kernel k, const std::vector<Opt>& opts) {
  for (const Opt& o : opts) {
    Result<Kernel> n = k.with(o);
    if (!n) return Result<Kernel>::no(o.str(), ": ", n.why());
    k = std::move(*n);
  }
  return k;
}
Result<Kernel> with_opts(Kernel k, std::string_view opts) {
  Result<std::vector<Opt>> list = parse_opts(opts);
  return list ? with_opts(std::move(k), *list) : Result<Kernel>::no(list.why());
}

namespace {

std::vector<UOp> ranges_of(UOp u) {
  size_t from = u.is(Op::Reduce) ? 1 : u.is(Op::Fold) ? size_t(u.arg<FoldArg>().inputs + 3 * u.arg<FoldArg>().states) : 2;
  std::vector<UOp> r;
  for (size_t i = from; i < u.nsrc(); i++)
    if (u.src(i).is(Op::Range)) r.push_back(u.src(i));
  return r;
}
bool closes(UOp u) { return u.in(Op::Reduce | Op::Fold | Op::Store); }

// What becomes of one RANGE: the expression it is read as, and the loops that stand in its place.
struct Split {
  UOp value;
  std::vector<UOp> loops;
};

// The kernel with RANGEs replaced, both where they are read and in the lists of loops.
UOp replace_ranges(UOp ast, const std::map<u32, Split>& map) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    if (u.is(Op::Range)) {
      auto it = map.find(u.id());
      if (it != map.end()) {
        to[u] = it->second.value;
        continue;
      }
    }
    std::vector<UOp> src;
    bool same = true;
    size_t from = closes(u) ? (u.is(Op::Reduce) ? 1 : u.is(Op::Fold) ? size_t(u.arg<FoldArg>().inputs + 3 * u.arg<FoldArg>().states) : 2) : u.nsrc();
    for (size_t i = 0; i < u.nsrc(); i++) {
      UOp s = u.src(i);
      auto it = i >= from && s.is(Op::Range) ? map.find(s.id()) : map.end();
      if (it != map.end()) {
        src.insert(src.end(), it->second.loops.begin(), it->second.loops.end());
        same = false;
      } else {
        src.push_back(to[s]);
        same &= to[s] == s;
      }
    }
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

i64 next_part(UOp ast, i64 id) {
  i64 n = 0;
  for (UOp u : toposort(ast))
    if (u.is(Op::Range) && u.arg<RangeArg>().id == id) n = std::max(n, u.arg<RangeArg>().part);
  return n + 1;
}

UOp piece(UOp size, UOp of, i64 part, AxisKind kind) {
  RangeArg a = of.arg<RangeArg>();
  a.part = part, a.kind = kind;
  return range(size, a);
}

}  // namespace

bool Axis::divides(i64 n) const { return size >= 0 && const_factor(extent()) % n == 0; }

std::vector<Axis> axes(UOp ast) {
  std::vector<Axis> out;
  auto add = [&](UOp r, bool reduce) {
    RangeArg a = r.arg<RangeArg>();
    Axis* x = nullptr;
    for (Axis& y : out)
      if (y.id == a.id && y.part == a.part) x = &y;
    if (!x) {
      UOp n = r.src(0);
      out.push_back({a.id, a.part, a.kind, is_uniform(n) ? most(n) : -1, !n.is_const() && is_uniform(n), true, false, {}});
      x = &out.back();
    }
    if (std::find(x->ranges.begin(), x->ranges.end(), r) == x->ranges.end()) x->ranges.push_back(r);
    x->reduce &= reduce;
    x->output |= !reduce;
  };
  for (UOp s : ast.src())
    if (s.is(Op::Store))
      for (UOp r : ranges_of(s)) add(r, false);
  for (UOp u : toposort(ast))
    if (closes(u))
      for (UOp r : ranges_of(u)) add(r, !u.is(Op::Store));
  return out;
}

namespace {

using R = Result<Kernel>;

struct Found {
  Axis axis;
  std::string why;
};
Found find_axis(const Kernel& k, const Opt& o) {
  if (std::find(k.ordered.begin(), k.ordered.end(), o.target) != k.ordered.end()) return {{}, str("axis ", o.target, " runs in its order")};
  for (Axis& a : axes(k.ast))
    if (a.id == o.target && a.part == o.part) {
      if (a.size < 0) return {{}, str("axis ", o.target, " has no fixed size")};
      return {a, {}};
    }
  return {{}, str("no axis ", o.target, "/", int(o.part))};
}

// A row on the stack that is written anew for each value of the loop `in`: copies and lanes of the loop get rows of their own.
UOp widen_rows(UOp ast, UOp in) {
  std::vector<UOp> topo = toposort(ast), rows;
  Memo<u8> dep;
  for (UOp u : topo) {
    for (UOp s : u.src()) dep[u] |= dep[s];
    if (u == in) dep[u] = 1;
    if (closes(u) && std::find(u.src().begin(), u.src().end(), in) != u.src().end()) dep[u] = 0;
    if (u.is(Op::Store) && dep[u] && memory_of(u.src(0)).is(Op::Row)) rows.push_back(memory_of(u.src(0)));
  }
  if (rows.empty()) return ast;
  UOp n = in.src(0);
  Memo<UOp> to;
  for (UOp u : topo) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (std::find(rows.begin(), rows.end(), u) != rows.end()) src[0] = src[0] * n;
    // Lanes of one place stand side by side, copies row after row: either way vectors are neighbours.
    if (u.is(Op::Index) && std::find(rows.begin(), rows.end(), memory_of(u)) != rows.end())
      src[1] = in.arg<RangeArg>().kind == AxisKind::Vector ? src[1] * n + in : in * memory_of(u).src(0) + src[1];
    to[u] = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : with_src(u, src);
  }
  return to[ast];
}

// Is some buffer both read and written? Then doing again what has been done may give something else.
bool reads_what_it_writes(UOp ast) {
  std::vector<UOp> topo = toposort(ast), stored;
  for (UOp u : topo)
    if (u.is(Op::Store)) stored.push_back(memory_of(u.src(0)));
  return std::any_of(topo.begin(), topo.end(), [&](UOp u) {
    return u.is(Op::Load) && std::find(stored.begin(), stored.end(), memory_of(u.src(0))) != stored.end();
  });
}

// Splits the innermost n off every RANGE of the axis.
R split(const Kernel& k, const Opt& o, AxisKind kind) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  bool clamp = a.free && o.arg > 1 && !a.divides(o.arg) && kind == AxisKind::Upcast;
  if (o.arg < 1 || (!clamp && !a.divides(o.arg)))
    return R::no("axis ", o.target, " of size ", a.free ? a.extent().str() : str(a.size), " is no multiple of ", o.arg);
  if (clamp && std::any_of(a.ranges.begin(), a.ranges.end(), [](UOp r) { return r.arg<RangeArg>().kind != AxisKind::Loop; }))
    return R::no("free axis ", o.target, " is a loop of reduces too");
  if (clamp && reads_what_it_writes(k.ast)) return R::no("the last rows of free axis ", o.target, " would be made twice, from what is written over");
  if (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is split already");
  if ((kind == AxisKind::Unroll || kind == AxisKind::Dot) && a.output) return R::no(kind == AxisKind::Dot ? "TC" : "UNROLL", " is for reduce axes");
  if (kind == AxisKind::Upcast && !a.output) return R::no("UPCAST is for output axes");
  i64 part = next_part(k.ast, a.id);
  std::map<u32, Split> map;
  std::vector<UOp> inner;
  for (UOp r : a.ranges) {
    AxisKind rk = kind;
    bool reduce = r.arg<RangeArg>().kind == AxisKind::Reduce;
    if (kind == AxisKind::Upcast && reduce) rk = AxisKind::Unroll;  // the row loops of a kernel's other phases
    UOp in = piece(idx(o.arg), r, part, rk);
    inner.push_back(in);
    if (!a.free && a.size == o.arg) {
      map[r.id()] = {in, {in}};
    } else {
      UOp n = r.src(0), times = simplify((clamp ? n + (o.arg - 1) : n) / o.arg);
      UOp outer = piece(times, r, a.part, r.arg<RangeArg>().kind), value = outer * idx(o.arg) + in;
      map[r.id()] = {clamp ? min(value, n - 1) : value, {outer, in}};
    }
  }
  Kernel n = k;
  n.ast = replace_ranges(k.ast, map);
  for (UOp in : inner) n.ast = widen_rows(n.ast, in);
  n.ast = simplify(n.ast);
  n.opts.push_back(o);
  return n;
}

// Where the kernel has versions for few values (FEW): the loop of each that is the same axis.
std::vector<UOp> versions_of(const Kernel& k, const Axis& a) {
  std::vector<UOp> out{a.ranges[0]};
  if (std::none_of(k.opts.begin(), k.opts.end(), [](const Opt& o) { return o.kind == OptKind::Few; })) return out;
  for (const Axis& x : axes(k.ast))
    if (x.id != a.id && x.id % 100 == a.id % 100 && x.part == a.part && x.size >= 0 && x.output && !x.reduce && x.ranges.size() == 1 && x.kind == AxisKind::Loop)
      out.push_back(x.ranges[0]);
  return out;
}

R thread(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (!a.output || a.reduce || a.ranges.size() != 1) return R::no("THREAD is for an output axis of one loop");
  if (a.kind != AxisKind::Loop) return R::no("axis ", o.target, " is no loop");
  if (o.arg < 2 || o.arg > k.target->max_tasks || o.arg > a.size) return R::no("THREAD of ", o.arg, " over ", a.size, "; at most ", k.target->max_tasks);
  std::vector<UOp> loops = versions_of(k, a);
  for (UOp s : k.ast.src()) {
    std::vector<UOp> l = ranges_of(s);
    if (std::count_if(l.begin(), l.end(), [&](UOp r) { return std::find(loops.begin(), loops.end(), r) != loops.end(); }) != 1)
      return R::no("axis ", o.target, " does not surround the whole kernel");
    if (s.is(Op::Store) && bits(s.src(0).dtype()) < 8) return R::no("tasks would store into one byte");
  }
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Task) return R::no("the kernel has tasks already");
  i64 part = next_part(k.ast, a.id);
  UOp task = piece(idx(o.arg), loops[0], part, AxisKind::Task);
  std::map<u32, Split> map;
  for (UOp r : loops) {
    UOp size = r.src(0);
    if (size.is_const(o.arg)) {
      map[r.id()] = {task, {task}};
    } else if (const_factor(size) % o.arg == 0) {
      UOp share = simplify(size / o.arg), in = piece(share, r, a.part, AxisKind::Loop);
      map[r.id()] = {task * share + in, {task, in}};
    } else {
      // Even shares: task t takes [t*size/n, (t+1)*size/n).
      UOp begin = (task * size) / idx(o.arg), end = ((task + 1) * size) / idx(o.arg);
      UOp in = piece(end - begin, r, a.part, AxisKind::Loop);
      map[r.id()] = {begin + in, {task, in}};
    }
  }
  Kernel n = k;
  n.ast = simplify(replace_ranges(k.ast, map));
  n.opts.push_back(o);
  return n;
}

// Moves a loop within the lists of loops.
UOp reorder(UOp ast, const std::function<void(std::vector<UOp>&)>& change) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (closes(u)) {
      std::vector<UOp> rs = ranges_of(u), now = rs;
      change(now);
      if (now != rs) {
        size_t n = src.size() - rs.size();
        for (size_t i = 0; i < now.size(); i++) src[n + i] = to[now[i]];
      }
    }
    bool same = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end());
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

bool is_axis(UOp r, i64 id, i64 part) { return r.arg<RangeArg>().id == id && r.arg<RangeArg>().part == part; }

R swap(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  Opt other = o;
  other.target = o.arg, other.part = u8(o.arg2);
  Found g = find_axis(k, other);
  if (!g.why.empty()) return R::no(g.why);
  if (is_axis(f.axis.ranges[0], o.arg, o.arg2)) return R::no("an axis does not change places with itself");
  bool done = false;
  Kernel n = k;
  n.ast = reorder(k.ast, [&](std::vector<UOp>& rs) {
    size_t i = rs.size(), j = rs.size();
    for (size_t x = 0; x < rs.size(); x++) {
      if (is_axis(rs[x], o.target, o.part)) i = x;
      if (is_axis(rs[x], o.arg, o.arg2)) j = x;
    }
    if (i < rs.size() && j < rs.size()) std::swap(rs[i], rs[j]), done = true;
  });
  if (!done) return R::no("axes ", o.target, " and ", o.arg, " are loops of one list nowhere");
  n.opts.push_back(o);
  return n;
}

R tile(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (o.arg < 1 || !a.divides(o.arg) || (!a.free && a.size == o.arg)) return R::no("axis ", o.target, " of size ", a.size, " has no tiles of ", o.arg);
  if (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is no loop");
  i64 part = next_part(k.ast, a.id);
  std::map<u32, Split> map;
  for (UOp r : a.ranges) {
    if (o.arg == 1) continue;  // the whole loop moves
    UOp outer = piece(simplify(r.src(0) / o.arg), r, part, r.arg<RangeArg>().kind), in = piece(idx(o.arg), r, a.part, r.arg<RangeArg>().kind);
    map[r.id()] = {outer * idx(o.arg) + in, {outer, in}};
  }
  Kernel n = k;
  i64 moved = o.arg == 1 ? a.part : part;
  n.ast = reorder(simplify(replace_ranges(k.ast, map)), [&](std::vector<UOp>& rs) {
    // The outermost of those inside a loop that runs in its order.
    size_t first = 0;
    for (size_t x = 0; x < rs.size(); x++) {
      if (std::find(k.ordered.begin(), k.ordered.end(), rs[x].arg<RangeArg>().id) != k.ordered.end()) first = x + 1;
      if (is_axis(rs[x], o.target, moved) && x > first) std::rotate(rs.begin() + long(first), rs.begin() + long(x), rs.begin() + long(x) + 1);
    }
  });
  n.opts.push_back(o);
  return n;
}

// A product of two LOADs that are zero outside: a sum needs no gate of its own.
bool vanishes(ReduceKind k, UOp u, Memo<u8>& dep) {
  if (k != ReduceKind::Add || !u.is(Op::Mul)) return false;
  for (UOp s : u.src()) {
    while (s.is(Op::Cast)) s = s.src(0);
    if (!s.is(Op::Load) || !dep[s.src(0)] || (s.nsrc() > 1 && !s.src(2).is_const(0))) return false;
  }
  return true;
}

// Every LOAD below u that depends on r gets the gate; outside, it reads zero, which nothing uses.
UOp gate_loads(UOp ast, UOp r, UOp inside) {
  Memo<UOp> to;
  Memo<u8> dep;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    bool same = true;
    u8 d = u == r;
    for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s, d |= dep[s];
    if (closes(u) && d) {
      bool closed = std::find(u.src().begin(), u.src().end(), r) != u.src().end();
      if (closed && u.is(Op::Reduce)) {
        ReduceArg a = u.arg<ReduceArg>();
        if (!vanishes(a.kind, u.src(0), dep)) src[0] = where(inside, src[0], identity(a.kind, u.dtype()));
        same = false;
      }
      if (u.is(Op::Store)) {  // also one in a loop of its own inside r, as KEEP makes
        bool gated = u.nsrc() > 2 && !u.src(2).is(Op::Range);
        if (gated) src[2] = src[2] & inside;
        else src.insert(src.begin() + 2, inside);
        same = false;
      }
      if (closed) d = 0;
      dep[u] = d;
      to[u] = same ? u : Arena::current().make(u.op(), u.dtype(), src, u.node()->arg);
      continue;
    }
    dep[u] = d;
    if (u.is(Op::Load) && dep[u.src(0)]) {
      if (u.nsrc() == 1) to[u] = node(Op::Load, u.dtype(), {src[0], inside, konst(u.dtype(), 0)});
      else to[u] = node(Op::Load, u.dtype(), {src[0], src[1] & inside, src[2]});
      continue;
    }
    to[u] = same ? u : with_src(u, src);
  }
  return to[ast];
}

R padto(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (o.arg < 2 || a.divides(o.arg)) return R::no("axis ", o.target, " of size ", a.size, " is a multiple of ", o.arg);
  if (a.kind != AxisKind::Loop && a.kind != AxisKind::Reduce) return R::no("axis ", o.target, " is no loop");
  if (a.free && a.size < 2) return R::no("axis ", o.target, " has at most one value");
  UOp size = a.extent(), padded = simplify((size + (o.arg - 1)) / o.arg * o.arg);
  Kernel n = k;
  for (UOp r : a.ranges) {
    for (UOp u : toposort(n.ast))
      if (u.is(Op::Fold) && std::find(u.src().begin(), u.src().end(), r) != u.src().end()) return R::no("a FOLD runs over axis ", o.target);
    UOp wide = range(padded, r.arg<RangeArg>());
    std::pair<UOp, UOp> s{r, wide};
    n.ast = substitute(n.ast, std::span(&s, 1));
    n.ast = gate_loads(n.ast, wide, lt(wide, size));
  }
  n.ast = simplify(n.ast);
  n.opts.push_back(o);
  return n;
}

R peel(const Kernel& k, const Opt& o) {
  Found f = find_axis(k, o);
  if (!f.why.empty()) return R::no(f.why);
  const Axis& a = f.axis;
  if (!a.output || a.reduce || a.ranges.size() != 1) return R::no("PEEL is for an output axis of one loop");
  if (o.arg < 2 || a.divides(o.arg) || a.size < o.arg) return R::no("axis ", o.target, " of size ", a.size, " leaves no remainder of ", o.arg);
  if (a.kind != AxisKind::Loop) return R::no("axis ", o.target, " is no loop");
  UOp r = a.ranges[0];
  if (!k.ordered.empty() && k.ast.nsrc() > 1) return R::no("loops that wait for one another have no second copy");
  UOp main = simplify(a.extent() / o.arg * o.arg), rest = simplify(a.extent() - main);
  // The second copy has loops of its own: the remainder is axis 100 + id, or the next hundred that is free; the others are later phases.
  i64 next_phase = 100, next_id = remainder_of(k.ast, a.id), more_rows = next_row(k.ast);
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Range)) next_phase = std::max(next_phase, u.arg<RangeArg>().phase + 1);
  std::vector<UOp> stores;
  Kernel n = k;
  for (int copy = 0; copy < 2; copy++) {
    for (UOp s : k.ast.src()) {
      if (std::find(s.src().begin(), s.src().end(), r) == s.src().end()) {
        if (!copy) stores.push_back(s);
        continue;
      }
      // Reduces, inner loops and rows of the second copy are its own.
      RangeArg ra = r.arg<RangeArg>();
      std::map<u32, Split> map;
      if (copy) {
        bool inner = false;
        std::vector<UOp> outer;
        std::vector<std::pair<UOp, UOp>> renamed;
        for (UOp x : ranges_of(s)) {
          if (x == r) inner = true;
          if (!inner) outer.push_back(x);
        }
        for (UOp u : toposort(s))
          if (u.is(Op::Range) && u != r && std::find(outer.begin(), outer.end(), u) == outer.end()) {
            RangeArg x = u.arg<RangeArg>();
            x.phase += next_phase;
            UOp fresh = range(substitute(u.src(0), renamed), x);  // sizes come before the loops that have them
            renamed.push_back({u, fresh});
            map[u.id()] = {fresh, {fresh}};
          }
        ra.id = next_id;
        UOp tail = range(rest, ra);
        map[r.id()] = {tail + main, {tail}};
        if (rest.is_const(1)) map[r.id()] = {main, {}};
      } else {
        UOp head = range(main, ra);
        map[r.id()] = {head, {head}};
      }
      UOp one = replace_ranges(s, map);
      std::vector<std::pair<UOp, UOp>> rows;
      if (copy)
        for (UOp u : toposort(one))
          if (u.is(Op::Row)) {
            RowArg row = u.arg<RowArg>();
            row.number += more_rows;
            rows.push_back({u, node(Op::Row, u.dtype(), {u.src(0)}, row.ints())});
          }
      stores.push_back(rows.empty() ? one : substitute(one, rows));
    }
  }
  n.ast = simplify(node(Op::Sink, Kind::Void, std::span<const UOp>(stores)));
  n.opts.push_back(o);
  return n;
}

// Padding of a packed constant is zero and may be read: LOADs of the slot lose gates that only keep a coordinate below its dim.
UOp drop_padding_gates(UOp ast, i64 slot, const std::vector<i64>& dims) {
  Memo<UOp> to;
  for (UOp u : toposort(ast)) {
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(to[s]);
    if (u.is(Op::Load) && u.nsrc() == 3 && u.src(0).src(0).is(Op::Param) && u.src(0).src(0).arg_int() == slot && u.src(2).is_const(0)) {
      std::vector<UOp> clauses{u.src(1)};
      bool all = true;
      for (size_t i = 0; i < clauses.size(); i++) {
        UOp c = clauses[i];
        if (c.is(Op::And)) {
          clauses.push_back(c.src(0)), clauses.push_back(c.src(1));
          continue;
        }
        bool padding = false;
        for (size_t a = 0; a < dims.size(); a++) padding |= simplify(lt(u.src(0).src(a + 1), idx(dims[a]))) == c;
        all &= padding;
      }
      if (all) {
        to[u] = node(Op::Load, u.dtype(), {src[0]});
        continue;
      }
    }
    to[u] = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : with_src(u, src);
  }
  return to[ast];
}

// The order in which the loops read the slot: each axis' coordinate must be a sum of whole digits.
R pack(const Kernel& k, const Opt& o) {
  if (o.target < 0 || o.target >= i64(k.slots.size()) || !k.slots[size_t(o.target)].constant) return R::no("slot ", o.target, " is no constant");
  const Slot& slot = k.slots[size_t(o.target)];
  std::vector<UOp> loads, order;
  for (UOp u : toposort(k.ast))
    if (u.is(Op::Index) && u.src(0).is(Op::Param) && u.src(0).arg_int() == o.target) loads.push_back(u);
  if (loads.empty()) return R::no("slot ", o.target, " is not read");
  // Loops from the outermost to the innermost, then what is in registers, then lanes.
  UOp main = loads[0];
  auto add = [&](UOp u) {
    for (UOp r : ranges_of(u))
      if (std::find(order.begin(), order.end(), r) == order.end()) order.push_back(r);
  };
  std::vector<UOp> topo = toposort(k.ast);
  Memo<u8> sees;
  for (UOp u : topo) {
    u8 s = u == main;
    for (UOp x : u.src()) s |= sees[x];
    sees[u] = s;
  }
  for (UOp s : k.ast.src())
    if (sees[s]) {
      add(s);
      break;
    }
  for (size_t i = topo.size(); i-- > 0;)
    if (sees[topo[i]] && topo[i].in(Op::Reduce | Op::Fold)) add(topo[i]);
  auto rank_of = [&](UOp r) {
    AxisKind kd = r.arg<RangeArg>().kind;
    return kd == AxisKind::Dot ? 4 : kd == AxisKind::Vector ? 3 : kd == AxisKind::Upcast ? 2 : kd == AxisKind::Unroll ? 1 : 0;
  };
  std::stable_sort(order.begin(), order.end(), [&](UOp a, UOp b) { return rank_of(a) < rank_of(b); });
  struct Digit {
    i64 axis, weight, size;
    size_t at;
  };
  std::vector<Digit> digits;
  for (size_t axis = 0; axis < slot.dims.size(); axis++) {
    UOp c = main.src(axis + 1);
    std::vector<Digit> mine;
    std::vector<UOp> terms{c};
    for (size_t i = 0; i < terms.size(); i++)
      if (terms[i].is(Op::Add)) {
        UOp t = terms[i];
        terms[i--] = t.src(0);
        terms.push_back(t.src(1));
      }
    for (UOp t : terms) {
      i64 w = 1;
      if (t.is(Op::Mul) && t.src(1).is_const()) w = t.src(1).as_int(), t = t.src(0);
      if (t.is_const(0)) continue;
      if (t.is_const()) return R::no("slot ", o.target, " is read at an offset");
      size_t at = size_t(std::find(order.begin(), order.end(), t) - order.begin());
      if (!t.is(Op::Range) || at == order.size() || !t.src(0).is_const()) return R::no("axis ", axis, " of slot ", o.target, " is not read loop by loop");
      mine.push_back({i64(axis), w, t.src(0).as_int(), at});
    }
    std::sort(mine.begin(), mine.end(), [](const Digit& a, const Digit& b) { return a.weight < b.weight; });
    i64 expect = 1;
    for (const Digit& d : mine) {
      if (d.weight != expect) return R::no("axis ", axis, " of slot ", o.target, " is read in overlapping pieces");
      expect *= d.size;
    }
    if (expect < slot.dims[axis]) return R::no("axis ", axis, " of slot ", o.target, " is not read whole");
    digits.insert(digits.end(), mine.begin(), mine.end());
  }
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.at < b.at; });
  Kernel n = k;
  n.slots[size_t(o.target)].layout.pieces.clear();
  for (const Digit& d : digits) n.slots[size_t(o.target)].layout.pieces.push_back({d.axis, d.size});
  n.ast = drop_padding_gates(k.ast, o.target, slot.dims);
  // Other loads than the first, and those whose gates an earlier PACK has dropped, must find padding too.
  for (UOp u : toposort(n.ast))
    if (u.is(Op::Load) && u.nsrc() == 1 && u.src(0).src(0).is(Op::Param) && u.src(0).src(0).arg_int() == o.target)
      for (size_t axis = 0; axis < slot.dims.size(); axis++) {
        i64 covered = 1;
        for (const Digit& d : digits)
          if (d.axis == i64(axis)) covered *= d.size;
        if (bounds(u.src(0).src(axis + 1)).hi >= covered) return R::no("axis ", axis, " of slot ", o.target, " is read beyond its first loops");
      }
  n.opts.push_back(o);
  return n;
}

// Why a row would not be whole where it is read: a loop over it outside one that it is written in.
std::string not_whole(UOp ast) {
  std::vector<UOp> topo = toposort(ast);
  Memo<std::vector<UOp>> kept;  // by node: STOREs below it that an AFTER waits for
  Memo<std::vector<UOp>> open;  // by node: loops that it stands in
  Memo<u8> waited;
  kept[ast], open[ast];
  for (UOp u : topo)
    if (u.is(Op::After))
      for (UOp e : u.src().subspan(1)) waited[e] = 1;
  for (UOp u : topo) {
    for (UOp s : u.src())
      for (UOp e : kept[s])
        if (std::find(kept[u].begin(), kept[u].end(), e) == kept[u].end()) kept[u].push_back(e);
    if (u.is(Op::Range)) open[u] = {u};
    for (UOp s : u.src())
      for (UOp r : open[s])
        if (std::find(open[u].begin(), open[u].end(), r) == open[u].end()) open[u].push_back(r);
    if (closes(u)) {
      std::vector<UOp> loops = ranges_of(u);
      std::erase_if(open[u], [&](UOp r) { return std::find(loops.begin(), loops.end(), r) != loops.end(); });
      for (UOp e : kept[u]) {
        std::vector<UOp> row = ranges_of(e), below = toposort(e);
        UOp over;  // the first loop over the row
        for (UOp r : loops) {
          bool is_row = std::any_of(row.begin(), row.end(), [&](UOp x) { return x.arg<RangeArg>().id == r.arg<RangeArg>().id; });
          if (is_row && !over) over = r;
          if (over && r != over && !is_row && std::find(below.begin(), below.end(), r) != below.end())
            return str("the loop ", over.str(), " over a kept row would stand outside ", r.str());
        }
        UOp again;  // the first loop that the row is the same for
        for (UOp r : loops) {
          bool sees = std::find(open[e].begin(), open[e].end(), r) != open[e].end();
          if (!sees && !again) again = r;
          if (sees && again) return str("the loop ", again.str(), ", for all of which a row is one, would stand outside ", r.str());
        }
      }
    }
    if (u.is(Op::Store) && waited[u]) kept[u].push_back(u);
  }
  return "";
}

// Why the loops are no nest: a loop outside one that its size depends on, or in two places.
std::string not_nested(UOp ast) {
  std::map<u32, UOp> around;  // of a loop that is not the first of its list: the one before it
  for (UOp u : toposort(ast)) {
    if (!closes(u)) continue;
    std::vector<UOp> loops = ranges_of(u);
    for (size_t i = 0; i < loops.size(); i++) {
      for (UOp x : toposort(loops[i].src(0)))
        if (std::find(loops.begin() + long(i), loops.end(), x) != loops.end()) return str("the loop ", loops[i].str(), " would stand outside ", x.str());
      UOp outer = i ? loops[i - 1] : UOp{};
      if (auto [it, fresh] = around.try_emplace(loops[i].id(), outer); !fresh && it->second != outer)
        return str("the loop ", loops[i].str(), " would be in two places");
    }
  }
  return "";
}

Result<Kernel> apply(const Kernel& k, const Opt& o);

}  // namespace

Result<Kernel> Kernel::with(const Opt& o) const {
  Result<Kernel> r = apply(*this, o);
  if (!r) return r;
  std::string why = not_nested(r->ast);
  if (why.empty()) why = not_whole(r->ast);
  if (why.empty()) why = shared_read(*r);
  return why.empty() ? r : R::no(why);
}

namespace {

// Loop nests of their own (the copies of PEEL, the phases of a row) may each have lanes; one value may not have two sets of them.
bool two_sets_of_lanes(UOp ast) {
  Memo<UOp> over;
  for (UOp u : toposort(ast)) {
    UOp v = u.is(Op::Range) && u.arg<RangeArg>().kind == AxisKind::Vector ? u : UOp{};
    if (!u.is(Op::Sink))
      for (UOp s : u.src()) {
        if (!over[s]) continue;
        if (v && v != over[s]) return true;
        v = over[s];
      }
    if (v && u.in(Op::Reduce | Op::Fold | Op::Store)) {
      std::vector<UOp> l = ranges_of(u);
      if (std::find(l.begin(), l.end(), v) != l.end()) v = {};
    }
    over[u] = v;
  }
  return false;
}

Result<Kernel> apply(const Kernel& k, const Opt& o) {
  switch (o.kind) {
    case OptKind::Upcast: return split(k, o, AxisKind::Upcast);
    case OptKind::Vector: {
      for (UOp u : toposort(k.ast)) {
        if (u.in(Op::Param | Op::Load) && bits(u.dtype()) < 8) return R::no("elements under 8 bits have no lanes");
      }
      if (o.arg < 2 || o.arg > 64) return R::no("VECTOR of ", o.arg);
      R r = split(k, o, AxisKind::Vector);
      if (r && two_sets_of_lanes(r->ast)) return R::no("a value would run in the lanes of two axes");
      return r;
    }
    case OptKind::Unroll: return split(k, o, AxisKind::Unroll);
    case OptKind::Thread: return thread(k, o);
    case OptKind::Swap: return swap(k, o);
    case OptKind::PadTo: return padto(k, o);
    case OptKind::Tile: return tile(k, o);
    case OptKind::Pack: return pack(k, o);
    case OptKind::Peel: return peel(k, o);
    case OptKind::Keep: return keep(k, o);
    case OptKind::Stage: return stage(k, o);
    case OptKind::Few: return few(k, o);
    case OptKind::Tc: {
      std::string why = refuse_tc(k, o);
      if (!why.empty()) return R::no(why);
      Opt group = o;
      group.arg = dot_rows(*k.target)[size_t(o.arg)].group;
      R r = split(k, group, AxisKind::Dot);
      if (r) r->opts.back() = o;
      return r;
    }
  }
  return R::no("unknown Opt");
}

}  // namespace

}  // namespace tg
