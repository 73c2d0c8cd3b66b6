// Two parts. Each loop's body costs as many cycles as its busiest unit: arithmetic, loads, stores, the chain of an accumulator; plus spills
// and the loop itself. Traffic comes from footprints: a loop whose data fits in a cache brings it in once for each turn of the loops around
// it.
#include "search/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ir/loops.h"

namespace tg {
namespace {

constexpr f64 kGhz = 3.6;
constexpr f64 kFmaLatency = 4, kLoopOverhead = 0.4;
constexpr f64 kWindow = 256;  // operations that are in flight at once
constexpr f64 kL2BytesPerCycle = 32, kL3BytesPerCycle = 22, kMemoryBytesPerCycle = 7;
constexpr f64 kL3Share = 8 << 20;  // of the last cache, whose rest is for others: a kernel over more than twice this runs from memory
constexpr i64 kLine = 64, kWays = 8;
constexpr f64 kFewConstants = 1 << 17;

struct Loop {
  UOp range;  // null: the whole kernel, or its tasks
  int parent = -1;
  f64 trips = 1, times = 1;  // times: how often its body runs in all
  f64 arithmetic = 0, loads = 0, stores = 0, latency = 0;
  f64 ops = 0;         // its instructions
  int starts = 0;      // loop in which the accumulator of its chain is set anew
  i64 live = 0;        // vector registers at the fullest point of its own body
  bool inner = false;  // has loops inside
};

// One access and its copies at constant distances.
struct Group {
  i64 slot;
  int loop;
  bool store;
  i64 width;                 // bytes of one access
  std::vector<i64> strides;  // bytes, along the loops around it, innermost first; -1: not linear
  std::vector<i64> offsets;  // of the copies, bytes
};

// A vector of offsets as scalar + lane * stride + constant; false if it is none.
bool split_lanes(UOp u, UOp* scalar, i64* stride, i64* constant) {
  if (u.is(Op::Add)) return split_lanes(u.src(0), scalar, stride, constant) && split_lanes(u.src(1), scalar, stride, constant);
  if (u.is(Op::Const)) return *constant += u.as_int(), true;
  if (u.is(Op::Lanes)) return *stride += 1, true;
  if (u.is(Op::Mul) && u.src(0).is(Op::Lanes) && u.src(1).is_const()) return *stride += u.src(1).as_int(), true;
  if (u.is(Op::Broadcast) && !*scalar) return *scalar = u.src(0), true;
  return false;
}

// An index expression over the task alone; nothing for any other.
std::optional<i64> at_task(UOp u, i64 task) {
  if (u.is_const()) return u.as_int();
  if (u.is(Op::Special)) return task;
  if (u.is(Op::Var)) return u.src(1).as_int();  // the largest
  if (u.is(Op::Where)) {
    auto c = at_task(u.src(0), task);
    return c ? at_task(u.src(*c ? 1 : 2), task) : std::nullopt;
  }
  if (u.nsrc() != 2) return {};
  auto a = at_task(u.src(0), task), b = at_task(u.src(1), task);
  if (!a || !b) return {};
  switch (u.op()) {
    case Op::Add: return *a + *b;
    case Op::Sub: return *a - *b;
    case Op::Mul: return *a * *b;
    case Op::FloorDiv:
    case Op::Div: return *b ? *a / *b : 0;  // nothing is negative here
    case Op::FloorMod:
    case Op::Rem: return *b ? *a % *b : 0;
    case Op::Min: return std::min(*a, *b);
    case Op::Max: return std::max(*a, *b);
    case Op::Shr: return *a >> *b;
    case Op::Shl: return *a << *b;
    case Op::And: return *a & *b;
    case Op::Or: return *a | *b;
    case Op::Lt: return *a < *b;
    case Op::Le: return *a <= *b;
    case Op::Eq: return *a == *b;
    case Op::Ne: return *a != *b;
    default: return {};
  }
}
// Turns of a loop: with tasks of uneven shares, their mean; below 1 for what the first task does for all, as borders.
f64 turns(UOp size, i64 tasks) {
  f64 sum = 0;
  i64 n = std::min<i64>(tasks, 1024);
  for (i64 t = 0; t < n; t++) {
    auto v = at_task(size, t);
    if (!v) return 8;
    sum += f64(*v);
  }
  return std::max(sum / f64(n), 1e-3);
}

class Model {
 public:
  Model(std::span<const UOp> list, i64 tasks, std::span<const Slot> slots, const Target& t) : list_(list), slots_(slots), t_(t) {
    loops_.push_back({});
    loops_[0].trips = loops_[0].times = f64(tasks);
  }

  Estimate run() {
    walk();
    liveness();
    for (const Group& g : groups_) loops_[size_t(g.loop)].loads += crowded(g);
    for (Loop& l : loops_) l.latency *= exposed(l);
    Estimate e;
    e.uops = i64(list_.size());
    f64 body = 0;
    for (size_t i = 0; i < loops_.size(); i++) {
      Loop& l = loops_[i];
      // A loop that only stores a constant, as borders do, is done in wide stores.
      bool fill = i && !l.inner && l.loads == 0 && l.arithmetic <= 0.3 && l.latency == 0;
      if (fill) l.stores /= 4, l.arithmetic = 0;
      f64 spill = f64(std::max<i64>(0, l.live - t_.vector_registers)) * 2;
      e.arithmetic += l.times * l.arithmetic, e.loads += l.times * l.loads, e.stores += l.times * l.stores;
      e.latency += l.times * l.latency, e.spills += l.times * spill;
      f64 overhead = i && !fill ? kLoopOverhead : 0;
      e.loops += l.times * overhead;
      body +=
          l.times * (std::max({l.arithmetic, l.loads, l.stores, l.latency, (l.arithmetic + l.loads + l.stores) / 3}) + spill + overhead);
      // Entering an inner loop empties the pipeline once.
      if (i && !l.inner && !fill) body += l.times / l.trips * 2;
    }
    traffic(e);
    f64 most = std::max({e.l2, e.l3, e.memory}), moved = most + 0.4 * (e.l2 + e.l3 + e.memory - most);
    e.ns = (std::max(body, moved) + 0.15 * std::min(body, moved)) / kGhz;
    return e;
  }

 private:
  f64 width_cost(DType d) const {
    f64 bytes = f64(d.lanes) * std::max(8, bits(d.kind)) / 8;
    return std::max(bytes / f64(std::max<i64>(t_.fma_per_cycle_bytes, 1)), 0.5);
  }
  i64 registers(DType d) const {
    if (d.lanes < 2) return 0;
    return std::max<i64>(1, (i64(d.lanes) * bits(d.kind) / 8 + t_.vector_bytes - 1) / t_.vector_bytes);
  }

  // A chain that is set anew before it fills the window runs beside those that follow it.
  f64 exposed(const Loop& l) const {
    if (l.latency == 0) return 1;
    f64 ops = l.ops * l.trips;
    for (int i = l.parent; i > l.starts; i = loops_[size_t(i)].parent) ops = (ops + loops_[size_t(i)].ops) * loops_[size_t(i)].trips;
    return std::clamp(ops / kWindow, 0.05, 1.0);
  }

  void walk() {
    int at = 0;
    std::map<u32, int> set_in;  // by accumulator: where it is stored first
    Memo<f64> depth;  // latency since an accumulator was read; below 0: does not depend on one
    for (UOp u : list_) {
      Loop* l = &loops_[size_t(at)];
      if (u.is(Op::Range)) {
        Loop n;
        n.range = u, n.parent = at;
        n.trips = turns(u.src(0), i64(loops_[0].trips));
        n.times = l->times * n.trips;
        l->inner = true;
        at = int(loops_.size());
        loops_.push_back(n);
        loop_of_[u.id()] = at;
        depth[u] = -1;
        continue;
      }
      if (u.is(Op::End)) {
        at = l->parent;
        continue;
      }
      f64 d = -1;
      for (UOp s : u.src())
        if (!s.is(Op::Reg) && !s.is(Op::After)) d = std::max(d, depth[s]);
      bool index = u.dtype().kind == Kind::Index && u.dtype().lanes == 1;
      if (!index && u.dtype().kind != Kind::Void && !u.in(Op::Const | Op::Index | Op::Load | Op::Reg | Op::After)) 
        l->ops += f64(std::max<i64>(1, registers(u.dtype())));
      if (u.in(Op::Load | Op::Store)) {
        UOp b = memory_of(u.src(0));
        DType v = u.is(Op::Load) ? u.dtype() : u.src(1).dtype();
        if (b.is(Op::Reg)) {
          if (u.is(Op::Load))
            d = 0;
          else if (auto [it, first] = set_in.try_emplace(b.id(), at); !first && d > l->latency)
            l->latency = d, l->starts = it->second;
        } else {
          access(u, b, v, at);
          if (u.is(Op::Store)) d = -1;
        }
      } else if (index) {
        // Addresses: constants fold into them, the rest mostly strength-reduces.
        if (is_alu(u.op()) && !(u.nsrc() == 2 && u.src(1).is_const() && u.is(Op::Add))) l->arithmetic += 0.1;
      } else if (u.in(Op::MulAcc | Op::Dot)) {
        // The chain runs through the sum; products come before it.
        l->arithmetic += width_cost(u.dtype());
        if (d >= 0) d += kFmaLatency;
      } else if (is_alu(u.op()) || u.in(Op::Cast | Op::Lookup | Op::Shuffle | Op::HReduce | Op::Pack | Op::Extract)) {
        f64 ops = u.in(Op::Div | Op::Sqrt | Op::Recip | Op::Rem) ? 8
                  : u.is(Op::HReduce)                            ? 2 * std::log2(f64(std::max<int>(2, u.src(0).dtype().lanes)))
                  : u.is(Op::Pack)                               ? f64(u.nsrc())
                                                                 : 1;
        DType v = u.is(Op::HReduce) || u.dtype().kind == Kind::Bool ? u.src(0).dtype() : u.dtype();
        l->arithmetic += ops * width_cost(v);
        if (d >= 0) d += u.in(Op::Add | Op::Sub | Op::Mul) ? 3 : 1;
      } else if (u.is(Op::Broadcast) && !u.src(0).is(Op::Load)) {
        l->arithmetic += 0.5;
      }
      depth[u] = d;
    }
  }

  void access(UOp u, UOp buffer, DType v, int at) {
    Loop& l = loops_[size_t(at)];
    bool store = u.is(Op::Store), gated = u.nsrc() > (store ? 2u : 1u);
    UOp index = u.src(0);
    DType offset = index.is(Op::Index) ? index.src(1).dtype() : DType(Kind::Index);
    f64 bytes = f64(v.lanes) * std::max(8, bits(v.kind)) / 8;
    f64 cost;
    if (offset.lanes > 1)
      cost = f64(offset.lanes) * (store ? 3.0 : 2.0);
    else if (gated && v.lanes > 1)
      cost = (t_.masked_cheap ? 1.0 : 2.0) * std::max(1.0, bytes / 64) * (store ? 2 : 0.6);
    else if (gated)
      cost = 2;
    else
      cost = store ? std::max(1.0, bytes / 32) : std::max(0.5, bytes / 64);
    (store ? l.stores : l.loads) += cost;
    if (!buffer.is(Op::Param) || !index.is(Op::Index)) return;

    Group g;
    g.slot = buffer.arg_int(), g.loop = at, g.store = store;
    i64 size = std::max(1, bits(buffer.dtype().kind) / 8);
    g.width = i64(bytes);
    UOp rest = index.src(1);
    i64 constant = 0, lane_stride = 0;
    bool known = true;
    if (offset.lanes > 1) {
      UOp scalar;
      g.width = size;
      known = split_lanes(rest, &scalar, &lane_stride, &constant);
      rest = scalar;
    }
    for (int i = at; i > 0; i = loops_[size_t(i)].parent) {
      if (!rest && known) {
        g.strides.push_back(0);
        continue;
      }
      auto f = known ? linear_in(rest, loops_[size_t(i)].range) : std::nullopt;
      if (f) rest = f->rest;
      g.strides.push_back(f ? std::abs(f->factor) * size : -1);
    }
    if (rest && known && rest.is_const())
      constant += rest.as_int();
    else if (rest && known && rest.is(Op::Add) && rest.src(1).is_const())
      constant += rest.src(1).as_int();
    g.strides.push_back(0);  // tasks: their shares lie apart
    std::vector<i64> key = g.strides;
    key.insert(key.end(), {g.slot, g.loop, g.store, g.width});
    auto [it, fresh] = group_of_.try_emplace(key, groups_.size());
    if (fresh) groups_.push_back(g);
    for (i64 lane = 0; lane < (offset.lanes > 1 ? i64(offset.lanes) : 1); lane++)
      groups_[it->second].offsets.push_back((constant + lane * lane_stride) * size);
  }

  // Bytes that the group touches while its `inner` innermost loops run. way: of a cache; then the bytes of it that this takes away from
  // others, which is more where strides are large powers of two and few sets hold everything.
  f64 footprint(const Group& g, size_t inner, i64 way = 0) const {
    std::vector<std::pair<i64, f64>> steps;
    f64 apart = 1;
    int at = g.loop;
    for (size_t i = 0; i < inner && at >= 0; i++, at = loops_[size_t(at)].parent) {
      i64 s = g.strides[i];
      f64 n = loops_[size_t(at)].trips;
      if (at == 0 || s < 0)
        apart *= n;  // tasks; no step is known
      else if (s > 0)
        steps.push_back({s, n});
    }
    std::sort(steps.begin(), steps.end());
    // Copies that lie side by side are one stretch.
    std::vector<i64> o = g.offsets;
    std::sort(o.begin(), o.end());
    std::vector<std::pair<f64, f64>> stretches;  // begin, length
    for (i64 x : o) {
      if (!stretches.empty() && f64(x) <= stretches.back().first + stretches.back().second + kLine)
        stretches.back().second = std::max(stretches.back().second, f64(x + g.width) - stretches.back().first);
      else
        stretches.push_back({f64(x), f64(g.width)});
    }
    f64 longest = 0, grown = 0;
    for (auto& [begin, length] : stretches) longest = std::max(longest, length);
    for (auto [s, n] : steps) {
      if (f64(s) <= longest + grown + kLine) {
        grown += f64(s) * (n - 1);
        continue;
      }
      f64 lines = n, span = longest + grown;
      if (way) {
        f64 sets = f64(way / std::gcd(s, way)) * std::max(1.0, span / kLine), all = f64(way / kLine);
        if (sets < all && n > 4) lines = n * std::min(all / sets, f64(s) / std::max(span, f64(kLine)));
      }
      apart *= lines;
    }
    f64 bytes = 0, end = -1e30;
    for (auto& [begin, length] : stretches) {
      f64 from = std::max(begin, end), to = begin + length + grown;
      if (to > from) bytes += std::max(to - from, from > begin ? 0.0 : f64(kLine));
      end = std::max(end, to);
    }
    return bytes * apart;
  }

  // Bytes that come from beyond a cache of this size.
  f64 misses(const Group& g, f64 cache, const std::vector<f64>& total) const {
    if (total[0] <= cache) return 0;  // it is there from the last launch, or from who made it
    size_t depth = g.strides.size();  // loops around it, tasks included
    size_t fits = 0;                  // innermost loops whose data fits
    int at = g.loop;
    for (size_t i = 1; i <= depth && at >= 0; i++, at = loops_[size_t(at)].parent) {
      if (total[size_t(at)] > cache) break;
      fits = i;
    }
    size_t inner = std::min(depth, fits + 1);
    f64 times = 1;
    at = g.loop;
    for (size_t i = 0; i < depth && at >= 0; i++, at = loops_[size_t(at)].parent)
      if (i >= inner) times *= loops_[size_t(at)].trips;
    return footprint(g, inner) * times;
  }

  // Copies of one access that lie in one set of the first cache, more of them than it has ways: each turn of the loop misses. A few misses
  // hide behind arithmetic.
  f64 crowded(const Group& g) const {
    std::map<i64, i64> sets;
    i64 way = t_.l1_bytes / kWays, most = 0;
    for (i64 x : g.offsets) most = std::max(most, ++sets[((x % way) + way) % way / kLine]);
    return most > kWays ? f64(most) * (g.store || most >= 2 * kWays - 1 ? 2.5 : 1.0) : 0;
  }

  void traffic(Estimate& e) const {
    // By loop: what it touches in all its turns.
    std::vector<f64> in_l1(loops_.size()), in_l2(loops_.size());
    std::map<i64, f64> whole;  // by slot, no access counted twice
    for (const Group& g : groups_) {
      int at = g.loop;
      for (size_t i = 1; i <= g.strides.size() && at >= 0; i++, at = loops_[size_t(at)].parent)
        in_l1[size_t(at)] += footprint(g, i, t_.l1_bytes / kWays), in_l2[size_t(at)] += footprint(g, i, t_.l2_bytes / kWays);
    }
    f64 l2 = 0, l3 = 0, memory = 0;
    for (const Group& g : groups_) {
      l2 += misses(g, f64(t_.l1_bytes) * 0.8, in_l1);
      l3 += misses(g, f64(t_.l2_bytes) * 0.7, in_l2);
      f64& w = whole[g.slot];
      f64 cap = 1e18;
      if (size_t(g.slot) < slots_.size()) cap = f64(slots_[size_t(g.slot)].layout.elems() * 8);
      w = std::min(cap, std::max(w, footprint(g, g.strides.size())));
    }
    f64 touched = 0;
    for (auto [slot, bytes] : whole) {
      touched += bytes;
      if (size_t(slot) < slots_.size() && slots_[size_t(slot)].constant) memory += bytes;
    }
    // Few of them stay in the last cache from one run of the model to the next.
    if (memory < kFewConstants) l3 = std::max(l3, memory), memory = 0;
    l3 = std::max(0.0, l3 - memory);  // the first time comes from further away
    f64 beyond = l3 * std::clamp(touched / kL3Share - 1, 0.0, 1.0);
    l3 -= beyond, memory += beyond;
    e.l2 = l2 / kL2BytesPerCycle, e.l3 = l3 / kL3BytesPerCycle, e.memory = memory / kMemoryBytesPerCycle;
  }

  // The fullest point of each loop's own body. A value from outside is live through the whole loop that reads it.
  void liveness() {
    std::map<u32, size_t> last, made, end_of;
    std::vector<std::vector<u32>> dies(list_.size());
    for (size_t i = 0; i < list_.size(); i++)
      if (list_[i].is(Op::End)) end_of[list_[i].src(0).id()] = i;
    std::vector<size_t> open;  // positions of the ENDs of open loops, outermost first
    std::vector<size_t> begins;
    for (size_t i = 0; i < list_.size(); i++) {
      UOp u = list_[i];
      if (u.is(Op::Range)) open.push_back(end_of[u.id()]), begins.push_back(i);
      if (u.is(Op::End) && !open.empty()) open.pop_back(), begins.pop_back();
      made[u.id()] = i;
      for (UOp s : u.src()) {
        UOp v = without_waits(s);
        auto m = made.find(v.id());
        if (m == made.end()) continue;
        size_t use = i;
        for (size_t k = 0; k < open.size(); k++)
          if (m->second < begins[k]) {
            use = std::max(use, open[k]);
            break;
          }
        last[v.id()] = std::max(last[v.id()], use);
      }
    }
    i64 live = 0;
    int at = 0;
    for (auto [id, pos] : last) dies[pos].push_back(id);
    std::map<u32, i64> weight;
    for (size_t i = 0; i < list_.size(); i++) {
      UOp u = list_[i];
      if (u.is(Op::Range)) at = loop_of_[u.id()];
      bool value =
          !u.is(Op::Const) && !u.is(Op::Index) && !u.is(Op::Store) && u.dtype().kind != Kind::Void && u.dtype().kind != Kind::Index;
      if (u.is(Op::Load) && memory_of(u.src(0)).is(Op::Reg)) value = false;  // the accumulator itself
      // What is read once, at once, is an operand in memory.
      if (u.is(Op::Load) && last.count(u.id()) && last[u.id()] <= i + 2) value = false;
      i64 w = value && last.count(u.id()) ? registers(u.dtype()) : 0;
      if (w) weight[u.id()] = w, live += w;
      Loop& l = loops_[size_t(at)];
      l.live = std::max(l.live, live);
      for (u32 id : dies[i])
        if (auto it = weight.find(id); it != weight.end()) live -= it->second;
      if (u.is(Op::End)) at = loops_[size_t(at)].parent;
    }
  }

  std::span<const UOp> list_;
  std::span<const Slot> slots_;
  const Target& t_;
  std::vector<Loop> loops_;
  std::map<u32, int> loop_of_;
  std::vector<Group> groups_;
  std::map<std::vector<i64>, size_t> group_of_;
};

}  // namespace

std::string Estimate::bound() const {
  const std::pair<f64, const char*> all[] = {{arithmetic, "arithmetic"}, {loads, "loads"},   {stores, "stores"},
                                             {latency, "latency"},       {spills, "spills"}, {loops, "loops"},
                                             {l2, "second cache"},       {l3, "last cache"}, {memory, "memory"}};
  return std::max_element(std::begin(all), std::end(all), [](auto& a, auto& b) { return a.first < b.first; })->second;
}

Estimate estimate(std::span<const UOp> linear, i64 tasks, std::span<const Slot> slots, const Target& target) {
  return Model(linear, tasks, slots, target).run();
}

}  // namespace tg
