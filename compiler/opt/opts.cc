// The Opts: each changes the axes of a kernel or says why it cannot.
//   UPCAST a n     the innermost n of output axis a become separate nodes: the register tile
//   VECTOR a n     the innermost n of axis a become lanes
//   UNROLL a n     the innermost n of reduce axis a become separate nodes
//   THREAD a n     output axis a is cut into n tasks
//   SWAP a b       the loops of axes a and b change places
//   PADTO a n      axis a runs to the next multiple of n; what lies outside is neither loaded nor stored
//   TILE a n       a is split by n and its outer part becomes the outermost loop; 1: the whole loop moves
//   PACK s         constant slot s lies in the order in which this kernel reads it
//   PREFETCH s     the parts of constant slot s are asked for before they are read (codegen/prefetch.cc)
//   KEEP v p       row value v is kept in place p between phases, not computed again (keep.cc)
//   STAGE s        what a tile's sum reads of slot s is copied to the stack first, in the order in which it is read (stage.cc)
//   TC a r         the innermost values of reduce axis a become the group of a dot instruction, row r of dot_rows (tc.cc)
//   PEEL a n       the last (size of a) mod n values of output axis a get a copy of the loop nest of their own
//   TRIM a         the loop of reduce axis a runs over the taps of a window that are not in a border alone (trim.cc)
//   FEW a n        where free axis a has at most n values a copy of the loop nest does them, whose axes are its own (few.cc)
//   BYPASS s       what is stored into slot s passes the caches by, where whole lines are stored (bypass.cc)
// A free axis is split where n is known to divide it, as after PADTO and PEEL. UPCAST takes any n there: the copies beyond the end do again
// what the last one does.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "opt/apply.h"
#include "opt/few.h"
#include "opt/keep.h"
#include "opt/stage.h"
#include "opt/tc.h"
#include "opt/trim.h"

namespace tg {

std::string Opt::str() const {
  std::string s = tg::str(kOptNames[int(kind)], " ", target);
  if (part) s += tg::str("/", int(part));
  if (has_arg(kind)) s += tg::str(" ", arg);
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
    if (has_arg(o.kind))
      number(arg, &o.arg);
    else
      good &= arg.empty();
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

using R = Result<Kernel>;

R apply(const Kernel& k, const Opt& o) {
  switch (o.kind) {
    case OptKind::Upcast: return opt::split(k, o, AxisKind::Upcast);
    case OptKind::Vector: return opt::vector(k, o);
    case OptKind::Unroll: return opt::split(k, o, AxisKind::Unroll);
    case OptKind::Thread: return opt::thread(k, o);
    case OptKind::Swap: return opt::swap(k, o);
    case OptKind::PadTo: return opt::padto(k, o);
    case OptKind::Tile: return opt::tile(k, o);
    case OptKind::Pack: return opt::pack(k, o);
    case OptKind::Peel: return opt::peel(k, o);
    case OptKind::Keep: return keep(k, o);
    case OptKind::Stage: return stage(k, o);
    case OptKind::Prefetch: return opt::prefetch(k, o);
    case OptKind::Few: return few(k, o);
    case OptKind::Trim: return trim(k, o);
    case OptKind::Bypass: return opt::bypass(k, o);
    case OptKind::Tc: {
      std::string why = refuse_tc(k, o);
      if (!why.empty()) return R::no(why);
      Opt group = o;
      group.arg = dot_rows(*k.target)[size_t(o.arg)].group;
      R r = opt::split(k, group, AxisKind::Dot);
      if (r) r->opts.back() = o;
      return r;
    }
  }
  return R::no("unknown Opt");
}

}  // namespace

Result<Kernel> Kernel::with(const Opt& o) const {
  Result<Kernel> r = apply(*this, o);
  if (!r) return r;
  std::string why = opt::not_nested(r->ast);
  if (why.empty()) why = opt::not_whole(r->ast);
  if (why.empty()) why = opt::too_many_unrolled(r->ast);
  if (why.empty()) why = shared_read(*r);
  return why.empty() ? r : R::no(why);
}

}  // namespace tg
