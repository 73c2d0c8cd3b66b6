// Loops and accumulators, in order. Every node belongs to the block of the innermost loop that it depends on, so what does not change in a
// loop is computed before it. REDUCEs and FOLDs that close the same ranges share one loop, as do STOREs. Within a block an order is found in
// which every item (a node, an accumulator's step, a whole inner loop) follows what it needs. Lanes become one in steps that wait for one another: where
// such a result leads to another one, as a softmax's maximum to its sum, those of several rows are made side by side.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "codegen/lower.h"
#include "ir/bounds.h"

namespace tg {
namespace {

using Deps = std::vector<UOp>;  // RANGEs, by id

bool by_id(UOp x, UOp y) { return x.id() < y.id(); }
void merge(Deps& a, const Deps& b) {
  Deps r;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r), by_id);
  a.swap(r);
}

struct Block {
  UOp range;  // null: the whole kernel
  int parent = -1, depth = 0;
  std::vector<int> effects;   // items that must run: inner loops, stores, steps
  std::vector<UOp> groups;    // accumulators whose outermost loop this is
  std::vector<int> first;     // items to begin with: HREDUCEs, those that lead to others before these
};

struct Item {
  enum Kind : u8 { Node, Step, Loop } kind = Node;
  UOp node;       // Node, Step
  int block = 0;  // Loop
  u32 order = 0;
  bool done = false, open = false;
  std::vector<int> needs;
};

class Linearizer {
 public:
  explicit Linearizer(bool fma) : fma_(fma) {}
  std::vector<UOp> run(UOp ast) {
    order_ = reduces_first(ast);
    for (auto* m : {&template_, &pushed_}) (*m)[ast];
    deps_[ast], group_[ast], value_[ast], node_item_[ast], step_item_[ast], home_[ast], site_[ast];
    find_templates();
    find_rereads();
    find_waits();
    find_open_ranges();
    if (find_guards()) find_open_ranges();
    make_blocks(ast);
    make_items();
    emit_block(0);
    out_.insert(out_.begin(), constants_.begin(), constants_.end());  // before every loop that reads them
    return std::move(out_);
  }

 private:
  static bool accumulates(UOp u) { return u.in(Op::Reduce | Op::Fold); }
  static bool closes(UOp u) { return accumulates(u) || u.is(Op::Store); }
  // The nodes, sources first; reduces in the order in which they were made. expand.cc makes the copies of a tile row by row, and what reads them
  // may ask for another order, in which all broadcasts of a tile would be alive at once.
  static std::vector<UOp> reduces_first(UOp ast) {
    std::vector<UOp> roots;
    for (UOp u : toposort(ast))
      if (u.is(Op::Reduce)) roots.push_back(u);
    std::sort(roots.begin(), roots.end(), [](UOp a, UOp b) { return a.id() < b.id(); });
    roots.push_back(ast);
    return toposort(roots);
  }
  bool ignored(UOp u) { return template_[u] || u.in(Op::Sink | Op::Stack | Op::Group | Op::After) || (u.is(Op::Range) && !block_of_.count(u.id())); }

  // Steps and merges of FOLDs are instantiated where the FOLD takes its step.
  void find_templates() {
    for (UOp u : order_) {
      template_[u] = u.is(Op::Placeholder);
      if (is_elementwise(u.op()))
        for (UOp s : u.src()) template_[u] |= template_[s];
    }
  }

  // A LOAD of what a STORE that reads it writes (a scatter that adds, a scan) sees the steps before: it stands in that STORE's loops, whatever
  // its index depends on.
  void find_rereads() {
    std::map<u32, std::vector<UOp>> stores;
    for (UOp u : order_)
      if (u.is(Op::Store)) stores[memory_of(u.src(0)).id()].push_back(u);
    Memo<u8> both;
    bool any = false;
    for (UOp u : order_)
      if (u.is(Op::Load) && stores.count(memory_of(u.src(0)).id())) both[memory_of(u.src(0))] = any = true;
    if (!any) return;
    for (auto& [id, list] : stores)
      for (UOp s : list) {
        if (!both[memory_of(s.src(0))]) continue;
        // Not below an AFTER: what it waits for is past, or has its place in these loops (find_waits).
        Memo<u8> seen;
        std::vector<UOp> todo{s.src(1)};
        while (!todo.empty()) {
          UOp u = todo.back();
          todo.pop_back();
          if (seen[u] || u.is(Op::After)) continue;
          seen[u] = 1;
          if (u.is(Op::Load) && memory_of(u.src(0)) == memory_of(s.src(0)) && !u.src(0).src(0).is(Op::After)) {
            std::vector<UOp> loops = closed_ranges(s);
            // Of several nests (the copies of PEEL): the loops that all of them are in.
            auto [it, fresh] = rereads_.try_emplace(u.id(), loops);
            if (!fresh) std::erase_if(it->second, [&](UOp r) { return std::find(loops.begin(), loops.end(), r) == loops.end(); });
          }
          todo.insert(todo.end(), u.src().begin(), u.src().end());
        }
      }
    for (auto& [id, ranges] : rereads_) {
      std::sort(ranges.begin(), ranges.end(), by_id);
      ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
    }
  }

  // An AFTER waits in each round of the loops that the STORE that reads it shares with those that it waits for, also where no address depends on
  // them: of a loop whose gate holds in its first round alone, say.
  void find_waits() {
    if (std::none_of(order_.begin(), order_.end(), [](UOp u) { return u.is(Op::After); })) return;
    Memo<Deps> around;  // loops of all STOREs that read a node
    Memo<u8> read;
    around[order_.back()];
    for (size_t i = order_.size(); i-- > 0;) {  // users before their sources
      UOp u = order_[i];
      if (u.is(Op::After)) {
        Deps shared;
        for (UOp e : u.src().subspan(1)) merge(shared, loops_of(e));
        Deps here;
        std::set_intersection(around[u].begin(), around[u].end(), shared.begin(), shared.end(), std::back_inserter(here), by_id);
        if (!here.empty()) waits_[u.id()] = here;
      }
      Deps here = u.is(Op::Store) ? loops_of(u) : around[u];
      for (size_t k = 0; k < u.nsrc(); k++) {
        UOp s = u.src(k);
        Deps both = u.is(Op::After) && k > 0 ? Deps{} : here;
        if (read[s]) {
          Deps old = std::move(around[s]), now;
          std::set_intersection(old.begin(), old.end(), both.begin(), both.end(), std::back_inserter(now), by_id);
          both = std::move(now);
        }
        read[s] = 1, around[s] = std::move(both);
      }
    }
  }
  static Deps loops_of(UOp e) {
    Deps d;
    if (e.is(Op::Group))
      for (UOp x : e.src()) merge(d, loops_of(x));
    if (e.is(Op::Store)) d = closed_ranges(e);
    std::sort(d.begin(), d.end(), by_id);
    return d;
  }

  // deps_: the loops a node's value depends on. Accumulators that share a loop share the union, and so do STOREs into one row: what one of them writes
  // anew in each round, as exponentials in the place of their row's elements (rows.cc), the others do too.
  void find_open_ranges() {
    std::map<std::vector<u32>, int> number;
    for (UOp u : order_)
      if (accumulates(u)) {
        std::vector<u32> key;
        for (UOp r : closed_ranges(u)) key.push_back(r.id());
        if (key.empty()) continue;
        group_[u] = number.try_emplace(key, int(number.size()) + 1).first->second;
      }
    for (UOp u : order_)
      if (u.is(Op::Store) && memory_of(u.src(0)).is(Op::Row)) group_[u] = number.try_emplace({memory_of(u.src(0)).id()}, int(number.size()) + 1).first->second;
    std::vector<Deps> joint(number.size() + 1);
    for (bool changed = true; changed;) {
      changed = false;
      for (UOp u : order_) {
        Deps d;
        if (!u.is(Op::Sink))
          for (UOp s : u.src()) merge(d, deps_[s]);
        if (u.is(Op::Range)) merge(d, {u});
        for (auto* known : {&rereads_, &waits_})
          if (auto it = known->find(u.id()); it != known->end()) merge(d, it->second);
        if (auto it = guards_.find(u.id()); it != guards_.end()) merge(d, it->second);
        if (closes(u)) {
          std::vector<UOp> c = closed_ranges(u);
          std::erase_if(d, [&](UOp r) { return std::find(c.begin(), c.end(), r) != c.end(); });
        }
        if (group_[u]) {
          Deps& j = joint[size_t(group_[u])];
          merge(d, j);
          if (d != j) j = d, changed = true;
        }
        deps_[u] = d;
      }
    }
  }

  // A loop of free size may not run at all, and then what stands in it may be neither read nor written: its address may be outside. LOADs, and
  // STOREs that something in the loop waits for, stay in such loops, also where they depend on nothing that changes there. What a row is made of
  // (a reduce over it, a kept value) stands before the loop over the row, which has the same axis. Are there any?
  bool find_guards() {
    auto maybe_empty = [](UOp r) { return !r.src(0).is_const() && bounds(r.src(0)).lo <= 0; };
    if (std::none_of(order_.begin(), order_.end(), [&](UOp u) { return u.is(Op::Range) && maybe_empty(u); })) return false;
    Memo<Deps> around;
    Memo<u8> read;
    Memo<u8> outermost;  // loops of the kernel's own STOREs
    for (UOp u : order_.back().src())
      for (UOp r : closed_ranges(u)) outermost[r] = 1;
    around[order_.back()];
    auto outside_row = [](Deps& d, UOp closer) {
      for (UOp c : closed_ranges(closer)) std::erase_if(d, [&](UOp r) { return r.arg<RangeArg>().id == c.arg<RangeArg>().id; });
    };
    for (size_t i = order_.size(); i-- > 0;) {  // users before their sources
      UOp u = order_[i];
      Deps here = around[u];
      if (accumulates(u)) outside_row(here, u);
      for (UOp r : closed_ranges(u))
        if (maybe_empty(r)) merge(here, {r});
      for (size_t k = 0; k < u.nsrc(); k++) {
        UOp s = u.src(k);
        Deps there = here;
        if (u.is(Op::After) && k > 0) {
          // Its address sees all loops around it but those of one round at most. A nest that names its loops itself stands where they are.
          std::erase_if(there, [](UOp r) { return bounds(r.src(0)).hi > 1; });
          std::vector<UOp> own = closed_ranges(s);
          if (std::any_of(own.begin(), own.end(), [&](UOp r) { return outermost[r] != 0; })) there.clear();
          outside_row(there, s);
        }
        if (read[s]) {
          Deps both;
          std::set_intersection(around[s].begin(), around[s].end(), there.begin(), there.end(), std::back_inserter(both), by_id);
          there = std::move(both);
        }
        read[s] = 1, around[s] = std::move(there);
      }
      if (u.in(Op::Load | Op::Store) && !around[u].empty()) guards_[u.id()] = around[u];
    }
    return !guards_.empty();
  }

  int deepest(const Deps& d) {
    int b = 0;
    for (UOp r : d) {
      auto it = block_of_.find(r.id());
      TG_CHECK(it != block_of_.end(), "a value outside its loop: ", r.str());
      if (blocks_[size_t(it->second)].depth > blocks_[size_t(b)].depth) b = it->second;
    }
    for (UOp r : d) TG_CHECK(inside(b, block_of_[r.id()]), "loops that are not nested meet in one value: ", r.str());
    return b;
  }
  bool inside(int b, int outer) const {
    while (b >= 0 && b != outer) b = blocks_[size_t(b)].parent;
    return b == outer;
  }

  void open_chain(UOp u) {
    int b = deepest(deps_[u]);
    for (UOp r : closed_ranges(u)) {
      auto [it, fresh] = block_of_.try_emplace(r.id(), int(blocks_.size()));
      if (fresh) blocks_.push_back({r, b, blocks_[size_t(b)].depth + 1, {}, {}});
      TG_CHECK(blocks_[size_t(it->second)].parent == b, "one loop in two places: ", r.str());
      b = it->second;
    }
  }

  void make_blocks(UOp ast) {
    blocks_.push_back({});
    std::vector<UOp> rest;
    for (UOp s : ast.src())
      if (s.is(Op::Store)) rest.push_back(s);
    for (UOp u : order_)
      if (closes(u)) rest.push_back(u);
    // Outer loops first: a loop stands where the loops that its values depend on already are.
    while (!rest.empty()) {
      std::vector<UOp> later;
      for (UOp u : rest) {
        bool ready = std::all_of(deps_[u].begin(), deps_[u].end(), [&](UOp r) { return block_of_.count(r.id()); });
        if (ready) open_chain(u);
        else later.push_back(u);
      }
      TG_CHECK(later.size() < rest.size(), "a loop has no place: ", later[0].str());
      rest.swap(later);
    }
  }

  int innermost(UOp u) {
    std::vector<UOp> c = closed_ranges(u);
    return c.empty() ? deepest(deps_[u]) : block_of_.at(c.back().id());
  }

  int add_item(Item i) {
    items_.push_back(i);
    return int(items_.size()) - 1;
  }

  void make_items() {
    loop_item_.assign(blocks_.size(), -1);
    for (size_t b = 1; b < blocks_.size(); b++) {
      loop_item_[b] = add_item({Item::Loop, {}, int(b), ~0u, false, false, {}});
      blocks_[size_t(blocks_[b].parent)].effects.push_back(loop_item_[b]);
    }
    u32 n = 0;
    for (UOp u : order_) {
      n++;
      if (ignored(u)) continue;
      home_[u] = u.is(Op::Range) ? block_of_.at(u.id()) : deepest(deps_[u]);
      site_[u] = closes(u) ? innermost(u) : home_[u];
      if (u.is(Op::Range)) site_[u] = blocks_[size_t(home_[u])].parent;
      if (u.is(Op::Store) || accumulates(u)) {
        // The statement in the innermost loop; the loops around it are items of their own.
        step_item_[u] = add_item({Item::Step, u, 0, n, false, false, {}}) + 1;
        blocks_[size_t(site_[u])].effects.push_back(step_item_[u] - 1);
        std::vector<UOp> c = closed_ranges(u);
        node_item_[u] = c.empty() ? step_item_[u] : loop_item_[size_t(block_of_.at(c[0].id()))] + 1;
        if (accumulates(u) && !c.empty()) blocks_[size_t(block_of_.at(c[0].id()))].groups.push_back(u);
        for (UOp r : c) {
          Item& i = items_[size_t(loop_item_[size_t(block_of_.at(r.id()))])];
          i.order = std::min(i.order, n);
        }
      } else if (!u.is(Op::Range)) {
        node_item_[u] = add_item({Item::Node, u, 0, n, false, false, {}}) + 1;
      }
    }
    for (UOp u : order_)
      if (!ignored(u))
        for (UOp s : u.src()) depend(u, s);
    for (Block& b : blocks_)
      std::stable_sort(b.effects.begin(), b.effects.end(), [&](int x, int y) { return items_[size_t(x)].order < items_[size_t(y)].order; });
    find_chains();
  }

  // HREDUCEs of a block that lead to others of the same block, by how many stand before them.
  void find_chains() {
    std::vector<std::vector<std::pair<int, int>>> found(blocks_.size());  // number of those before, item
    Memo<int> before;
    Memo<u8> again;  // sees what a step before has written
    before[order_.back()], again[order_.back()];
    for (UOp u : order_) {
      again[u] = rereads_.count(u.id()) != 0;
      for (UOp s : u.src()) {
        again[u] |= again[s];
        if (before[s] + s.is(Op::HReduce) > before[u]) before[u] = before[s] + s.is(Op::HReduce);
      }
      if (u.is(Op::HReduce) && !again[u] && node_item_[u]) found[size_t(home_[u])].push_back({before[u], node_item_[u] - 1});
    }
    for (size_t b = 0; b < found.size(); b++) {
      std::vector<std::pair<int, int>>& f = found[b];
      if (f.empty()) continue;
      std::stable_sort(f.begin(), f.end(), [](auto& x, auto& y) { return x.first < y.first; });
      if (f.front().first == f.back().first) continue;
      for (auto [n, item] : f) blocks_[b].first.push_back(item);
    }
  }

  // u, read at site_[u], needs s, which has its value in home_[s].
  void depend(UOp u, UOp s) {
    if (s.is(Op::Group)) {
      for (UOp x : s.src()) depend(u, x);
      return;
    }
    if (s.is(Op::After)) {
      depend(u, s.src(0));
      for (UOp e : s.src().subspan(1)) depend_effect(u, e);
      return;
    }
    if (ignored(s) || s.is(Op::Range)) return;  // a loop variable is there when its loop is
    int at = home_[s], b = site_[u], child = -1;
    while (b != at) {
      TG_CHECK(b > 0, "a value is read outside its loop: ", s.str());
      child = b;
      b = blocks_[size_t(b)].parent;
    }
    int reader = child >= 0 ? loop_item_[size_t(child)] : u.is(Op::Range) ? loop_item_[size_t(home_[u])] : closes(u) ? step_item_[u] - 1 : node_item_[u] - 1;
    int maker = node_item_[s] - 1;
    if (reader != maker) items_[size_t(reader)].needs.push_back(maker);
  }

  // u comes after effect e: in the innermost loop around both, what holds u needs what holds e. The loops that they share go on together.
  void depend_effect(UOp u, UOp e) {
    if (e.is(Op::Group)) {
      for (UOp x : e.src()) depend_effect(u, x);
      return;
    }
    int a = site_[u], b = site_[e], below_a = -1, below_b = -1;
    while (a != b) {
      bool up_a = blocks_[size_t(a)].depth >= blocks_[size_t(b)].depth;
      int& x = up_a ? a : b;
      (up_a ? below_a : below_b) = x;
      x = blocks_[size_t(x)].parent;
    }
    int reader = below_a >= 0 ? loop_item_[size_t(below_a)] : closes(u) ? step_item_[u] - 1 : node_item_[u] - 1;
    int maker = below_b >= 0 ? loop_item_[size_t(below_b)] : step_item_[e] - 1;
    if (reader != maker) items_[size_t(reader)].needs.push_back(maker);
  }

  // --- emission -------------------------------------------------------------------------------------------------------------------------
  void emit_block(int b) {
    for (int i : blocks_[size_t(b)].first) emit(i);
    for (int i : blocks_[size_t(b)].effects) emit(i);
  }

  void emit(int index) {
    {
      Item& i = items_[size_t(index)];
      if (i.done) return;
      // Opts that move a loop of one round over another's can do this: the search takes them for refused.
      if (i.open) fail("with these Opts loops need each other's results: ", i.node ? i.node.str() : std::string("a loop"));
      i.open = true;
    }
    for (size_t k = 0; k < items_[size_t(index)].needs.size(); k++) emit(items_[size_t(index)].needs[k]);
    Item& i = items_[size_t(index)];
    i.done = true;
    switch (i.kind) {
      case Item::Node: return plain(i.node);
      case Item::Step:
        if (i.node.is(Op::Store)) return store(i.node);
        if (closed_ranges(i.node).empty()) {
          start(i.node);
          step(i.node, {});
          finish(i.node, {});
        } else {
          step(i.node, value_[blocks_[size_t(site_[i.node])].range]);
        }
        return;
      case Item::Loop: return loop(i.block);
    }
  }

  void loop(int b) {
    for (UOp u : blocks_[size_t(b)].groups) start(u);
    UOp r = blocks_[size_t(b)].range;
    UOp size = value(r.src(0));
    UOp open = with_src(r, std::span(&size, 1));
    push(open);
    value_[r] = open;
    int outer = here_;
    here_ = b;
    emit_block(b);
    here_ = outer;
    UOp end = node(Op::End, Kind::Void, {open});
    push(end);
    for (UOp u : blocks_[size_t(b)].groups) finish(u, end);
  }

  void push(UOp u) { out_.push_back(u); }
  void push_once(UOp u) {  // a CONST
    if (pushed_[u]) return;
    pushed_[u] = 1;
    constants_.push_back(u);
  }

  UOp value(UOp u) {
    if (u.is(Op::Const)) push_once(u);
    // Keeps what is loaded after the stores apart from what was loaded before; the order itself is that of the list.
    if (u.is(Op::After)) return last_store_ ? node(Op::After, u.dtype(), {value(u.src(0)), last_store_}) : value(u.src(0));
    UOp v = u.is(Op::Const) ? u : value_[u];
    TG_CHECK(v, "used before it is computed: ", u.str());
    return v;
  }

  void plain(UOp u) {
    switch (u.op()) {
      case Op::Const: return push_once(u);
      case Op::Get: value_[u] = states_.at(u.src(0).id())[size_t(u.arg_int())]; return;
      case Op::Mul:
      case Op::Dot:
        if (lazy_product(u)) return;
        break;
      default: break;
    }
    std::vector<UOp> src;
    for (UOp s : u.src()) src.push_back(value(s));
    UOp v = std::equal(src.begin(), src.end(), u.src().begin(), u.src().end()) ? u : Arena::current().make(u.op(), u.dtype(), src, u.node()->arg);
    push(v);
    value_[u] = v;
  }

  // A float product or a DOT that only sums read is made by their fused step: a product is rounded once with the sum.
  bool lazy_product(UOp u) {
    if (u.is(Op::Mul) && (!is_float(u.dtype()) || !fma_)) return false;
    if (!readers_known_) {
      readers_known_ = true;
      other_reader_[order_.back()];
      for (UOp x : order_) {
        bool sum = x.is(Op::Reduce) && x.arg<ReduceArg>().kind == ReduceKind::Add;
        for (UOp s : x.src())
          if (!sum) other_reader_[s] = 1;
      }
    }
    return !other_reader_[u];
  }

  void store(UOp u) {
    std::vector<UOp> src{value(u.src(0)), value(u.src(1))};
    if (u.nsrc() > 2 && !u.src(2).is(Op::Range)) src.push_back(value(u.src(2)));
    last_store_ = node(Op::Store, Kind::Void, std::span<const UOp>(src));
    push(last_store_);
  }

  // --- accumulators ---------------------------------------------------------------------------------------------------------------------
  static UOp splat(UOp c, int lanes) { return lanes == 1 ? c : konst_bits(c.dtype().scalar().vec(u16(lanes)), c.arg_bits()); }
  void set(UOp reg, UOp v) { push(node(Op::Store, Kind::Void, {reg, v})); }
  UOp read(UOp reg, UOp after) {
    UOp l = node(Op::Load, reg.dtype(), {after ? node(Op::After, reg.dtype(), {reg, after}) : reg});
    push(l);
    return l;
  }
  UOp compute(Op op, std::initializer_list<UOp> src) {
    UOp v = alu(op, src);
    push_here(v);
    return v;
  }
  // A node made here may be made by another step too: it stands once in a block and those inside it.
  void push_here(UOp v) {
    if (v.is(Op::Const)) return push_once(v);
    if (made_in_[v] && inside(here_, made_in_[v] - 1)) return;
    made_in_[v] = here_ + 1;
    push(v);
  }

  void start(UOp u) {
    std::vector<UOp>& regs = regs_[u.id()];
    std::vector<UOp> init;
    if (u.is(Op::Reduce)) {
      init.push_back(splat(identity(u.arg<ReduceArg>().kind, u.dtype().scalar()), u.dtype().lanes));
    } else {
      FoldArg f = u.arg<FoldArg>();
      for (i64 i = 0; i < f.states; i++) init.push_back(splat(u.src(size_t(f.inputs + i)), u.dtype().lanes));
    }
    for (UOp c : init) {
      push_once(c);
      regs.push_back(node(Op::Reg, c.dtype(), {}, next_reg_++));
      push(regs.back());
      set(regs.back(), c);
    }
  }

  void step(UOp u, UOp loop) {
    const std::vector<UOp>& regs = regs_.at(u.id());
    if (u.is(Op::Reduce)) {
      ReduceKind kind = u.arg<ReduceArg>().kind;
      Op op = alu_op(kind);
      UOp acc = read(regs[0], loop);
      for (UOp v : reduce_values(u)) {
        if (op == Op::Add && v.is(Op::Mul) && lazy_product(v)) acc = compute(Op::MulAcc, {value(v.src(0)), value(v.src(1)), acc});
        else if (op == Op::Add && v.is(Op::Dot) && lazy_product(v)) push_here(acc = node(Op::Dot, v.dtype(), {value(v.src(0)), value(v.src(1)), acc}));
        else if (kind == ReduceKind::MaxAny) acc = compute(Op::Where, {compute(Op::Lt, {value(v), acc}), acc, value(v)});
        else acc = compute(op, {acc, value(v)});
      }
      return set(regs[0], acc);
    }
    FoldArg f = u.arg<FoldArg>();
    std::vector<UOp> state, next;
    for (UOp r : regs) state.push_back(read(r, loop));
    Memo<u8> known;
    for (i64 i = 0; i < f.states; i++) {
      UOp e = u.src(size_t(f.inputs + f.states + i));
      std::vector<std::pair<UOp, UOp>> map;
      for (UOp p : toposort(e))
        if (p.is(Op::Placeholder)) {
          PlaceholderArg pa = p.arg<PlaceholderArg>();
          map.push_back({p, pa.role == PlaceholderArg::Input ? value(u.src(size_t(pa.index))) : state[size_t(pa.index)]});
        }
      for (auto [p, v] : map) known[v] = 1;
      UOp v = instantiate(e, map, u.dtype().lanes);
      push_tree(v, known);
      next.push_back(v);
    }
    for (size_t i = 0; i < next.size(); i++) set(regs[i], next[i]);
  }
  // What instantiate() made, down to values that stand in the list already.
  void push_tree(UOp v, Memo<u8>& known) {
    if (known[v]) return;
    known[v] = 1;
    if (v.is(Op::Const)) return push_once(v);
    for (UOp s : v.src()) push_tree(s, known);
    push_here(v);
  }

  void finish(UOp u, UOp end) {
    std::vector<UOp> got;
    for (UOp r : regs_.at(u.id())) got.push_back(read(r, end));
    if (u.is(Op::Reduce)) value_[u] = got[0];
    else states_[u.id()] = got, value_[u] = u;
  }

  std::vector<UOp> order_, out_, constants_;
  Memo<u8> template_, pushed_, other_reader_;
  Memo<Deps> deps_;
  std::map<u32, Deps> rereads_, guards_, waits_;  // by LOAD; by AFTER
  Memo<int> group_, home_, site_, node_item_, step_item_;  // item numbers are one more than the index, 0: none
  Memo<int> made_in_;
  Memo<UOp> value_;
  UOp last_store_;
  int here_ = 0;  // the block being emitted
  std::vector<Block> blocks_;
  std::vector<Item> items_;
  std::vector<int> loop_item_;
  std::map<u32, int> block_of_;
  std::map<u32, std::vector<UOp>> regs_, states_;
  i64 next_reg_ = 0;
  bool fma_;
  bool readers_known_ = false;
};

}  // namespace

std::vector<UOp> linearize(UOp ast, bool fma) { return Linearizer(fma).run(ast); }

}  // namespace tg
