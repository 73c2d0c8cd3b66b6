#include "ir/regions.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tg {
namespace {

using Ids = std::vector<i64>;

void join(Ids& a, const Ids& b) {
  if (b.empty()) return;
  Ids r;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r));
  a = std::move(r);
}

// The loops whose round decides a node's value, by node.
Memo<Ids> dependences(std::span<const UOp> order) {
  Memo<Ids> on;
  for (UOp u : order) {
    Ids ids;
    if (u.is(Op::Carry)) ids = {u.arg<CarryArg>().loop};
    if (u.is(Op::Step)) ids = {u.arg_int()};
    for (size_t i = 0; i < u.nsrc(); i++) {
      const Ids& s = on[u.src(i)];
      if (s.empty()) continue;
      if (u.is(Op::Loop) && i >= u.arg<LoopArg>().next_go()) {
        Ids outer = s;
        std::erase(outer, u.arg<LoopArg>().id);
        join(ids, outer);
      } else {
        join(ids, s);
      }
    }
    on[u] = std::move(ids);
  }
  return on;
}

}  // namespace

u32 Regions::inside(UOp owner, u32 side) const {
  auto it = std::lower_bound(first_.begin(), first_.end(), std::pair(owner.id(), u32(0)));
  TG_CHECK(it != first_.end() && it->first == owner.id(), "no region of ", owner.str());
  return it->second + side;
}
bool Regions::in_loop(u32 region, u32 above) const {
  for (; region != above; region = list[region].parent) {
    if (list[region].owner.is(Op::Loop)) return true;
    if (region == 0) return false;
  }
  return false;
}
bool Regions::around(u32 outer, u32 inner) const {
  while (list[inner].depth > list[outer].depth) inner = list[inner].parent;
  return inner == outer;
}

Regions regions(std::span<const UOp> order, std::span<const UOp> roots) {
  Regions r;
  r.list.push_back({});
  bool any = std::any_of(order.begin(), order.end(), [](UOp u) { return u.in(Op::Loop | Op::Branch); });
  if (!any) {
    for (UOp u : order) r.of[u] = 0;
    return r;
  }
  Memo<Ids> on = dependences(order);
  std::map<u32, u32> first;
  Memo<u8> known;
  auto use = [&](UOp s, u32 where) {
    if (!known[s]) {
      known[s] = 1, r.of[s] = where;
      return;
    }
    u32 a = r.of[s], b = where;
    while (a != b) r.list[a].depth >= r.list[b].depth ? a = r.list[a].parent : b = r.list[b].parent;
    r.of[s] = a;
  };
  for (UOp u : roots) use(u, 0);
  for (size_t k = order.size(); k-- > 0;) {
    UOp u = order[k];
    u32 at = r.of[u];
    const Ids& ids = on[u];
    while (r.list[at].owner && r.list[at].owner.is(Op::Loop) && !std::binary_search(ids.begin(), ids.end(), r.list[at].owner.arg<LoopArg>().id))
      at = r.list[at].parent;
    r.of[u] = at;
    if (u.in(Op::Loop | Op::Branch)) {
      first[u.id()] = u32(r.list.size());
      for (u32 side = 0; side < (u.is(Op::Branch) ? 2u : 1u); side++) r.list.push_back({u, side, at, r.list[at].depth + 1});
    }
    for (size_t i = 0; i < u.nsrc(); i++) {
      u32 where = at;
      if (u.is(Op::Loop) && i >= u.arg<LoopArg>().next_go()) where = first[u.id()];
      if (u.is(Op::Branch) && i > 0) where = first[u.id()] + (i > size_t(u.arg_int()) ? 1 : 0);
      use(u.src(i), where);
    }
  }
  r.first_.assign(first.begin(), first.end());
  return r;
}

std::string loop_violation(std::span<const UOp> order) {
  std::map<i64, UOp> loops;
  std::vector<UOp> carries;
  bool any = false;
  for (UOp u : order) {
    any |= u.in(Op::Carry | Op::Step | Op::Loop);
    if (u.is(Op::Carry)) carries.push_back(u);
    if (u.is(Op::Loop) && !loops.try_emplace(u.arg<LoopArg>().id, u).second)
      return str("tensor form: two LOOPs have the number ", u.arg<LoopArg>().id, ": ", u.str());
  }
  if (!any) return "";
  for (UOp c : carries) {
    auto it = loops.find(c.arg<CarryArg>().loop);
    if (it == loops.end()) return str("tensor form: no LOOP has the number of ", c.str());
    LoopArg a = it->second.arg<LoopArg>();
    i64 i = c.arg<CarryArg>().index;
    if (i >= a.carried || it->second.src(a.init(i)).dtype() != c.dtype() || !same_shape(shape(it->second.src(a.init(i))), shape(c)))
      return str("tensor form: ", c.str(), " is not what its LOOP carries");
  }
  // What a round decides is read inside the loop only.
  Memo<Ids> on = dependences(order);
  Regions r = regions(order, order.subspan(order.size() - 1));
  for (UOp u : order)
    for (i64 id : on[u]) {
      bool inside = false;
      for (u32 at = r.of[u]; at && !inside; at = r.list[at].parent)
        inside = r.list[at].owner.is(Op::Loop) && r.list[at].owner.arg<LoopArg>().id == id;
      if (!inside) return str("tensor form: ", u.str(), " is read outside the LOOP ", id, " on whose round it depends");
    }
  return "";
}

}  // namespace tg
