#include "schedule/choice.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/settings.h"
#include "ir/regions.h"
#include "schedule/attention.h"
#include "schedule/byte_product.h"
#include "schedule/cost.h"
#include "schedule/joined_products.h"
#include "schedule/realize.h"
#include "schedule/split_sum.h"
#include "schedule/store_choice.h"
#include "schedule/winograd.h"

namespace tg {
namespace {

constexpr f64 kMostError = 1e-4;  // of the largest result: what is chosen by itself errs by less
constexpr f64 kClearly = 0.985;
constexpr i64 kCopiedChannels = 16;
constexpr i64 kFewestQueries = 8, kFewestKeys = 16;  // fewer fill no tile of a kernel with rows
const char *const kStored = "stored", *const kAgain = "computed again";

Memo<std::vector<UOp>> users_of(UOp sink) {
  Memo<std::vector<UOp>> users;
  users[sink];
  for (UOp u : toposort(sink))
    for (UOp s : u.src()) users[s].push_back(u);
  return users;
}

void find_attention(const Graph& g, const Target& target, std::vector<Choice>& out) {
  i64 wish = settings::ATTENTION();
  std::vector<UOp> order = toposort(g.sink);
  if (wish == 0 || std::none_of(order.begin(), order.end(), [](UOp u) { return u.is(Op::Exp); })) return;
  Memo<std::vector<UOp>> users = users_of(g.sink);
  Regions in = regions(order, std::span(&g.sink, 1));
  for (UOp u : order) {
    std::optional<Attention> a = match_attention(u, users);
    if (!a || in.of[a->product] != in.of[u] || in.of[a->exp] != in.of[u]) continue;  // what a loop does not change is made before it
    Choice choice{Choice::Attention};
    choice.value = u;
    choice.label = str("attention ", a->batch, "x", a->queries, " queries ", a->keys, " keys, ", a->depth, " and ", a->width, " wide");
    choice.alternatives = {{"three kernels", split_attention_cycles(*a, target), 0}, {"one kernel", joined_attention_cycles(*a, target), 0}};
    bool large = a->queries >= kFewestQueries && a->keys >= kFewestKeys;
    choice.picked = wish == 1 || (large && choice.alternatives[1].cycles < kClearly * choice.alternatives[0].cycles);
    out.push_back(std::move(choice));
  }
}

i64 bytes_of_constants(const Graph& g) {
  i64 n = 0;
  for (const ConstantData& c : g.constants) n += i64(c.bytes.size());
  return n;
}

void find_byte_products(const Graph& g, const Target& target, std::vector<Choice>& out) {
  i64 wish = settings::A16W8();
  if (wish == 0 || !multiplies_bytes(target)) return;
  std::vector<UOp> order = toposort(g.sink);
  Regions in = regions(order, std::span(&g.sink, 1));
  const i64 constants = bytes_of_constants(g);
  for (UOp u : order) {
    if (in.in_loop(in.of[u], 0)) continue;  // a loop's rounds are few rows, and one call as they stand
    std::optional<ByteProduct> p = match_byte_product(u, g);
    if (!p) continue;
    Choice choice{Choice::Bytes};
    choice.value = u;
    choice.label = str("bytes ", p->rows, "x", p->depth, " by ", p->depth, "x", p->columns);
    choice.alternatives = {{"f32", widened_cycles(*p, target, constants), 0}, {"A16W8", byte_product_cycles(*p, target, constants), kByteProductError}};
    choice.picked = wish == 1 || choice.alternatives[1].cycles < kClearly * choice.alternatives[0].cycles;
    out.push_back(std::move(choice));
  }
}

void find_convolutions(const Graph& g, const Target& target, std::vector<Choice>& out) {
  i64 wish = settings::WINO();
  if (wish == 0) return;
  const i64 constants = bytes_of_constants(g);
  std::vector<UOp> order = toposort(g.sink);
  Regions in = regions(order, std::span(&g.sink, 1));
  for (UOp u : order) {
    std::optional<Conv3> c = match_conv3(u);
    if (!c) continue;
    Choice choice{Choice::Convolution};
    choice.value = u;
    choice.label = str("conv ", c->taps[0], "x", c->taps[1], " ", c->in, "->", c->out, " at ", c->n == 1 ? "" : str(c->n, "x"), c->rows, "x", c->columns);
    choice.alternatives = {{"direct", direct_cycles(*c, target, constants), 0},
                           {"F(2,3)", winograd_cycles(*c, 2, target, constants), winograd_error(2), 2},
                           {"F(4,3)", winograd_cycles(*c, 4, target, constants), winograd_error(4), 4}};
    for (i64 f : {2, 4})
      if (std::optional<WinogradPieces> p = in.of[u] == 0 ? winograd_pieces(*c, f, target) : std::nullopt)
        choice.alternatives.push_back({str("F(", f, ",3) in one kernel"), winograd_cycles(*c, f, *p, target, constants), winograd_error(f), f, true});
    for (u32 i = 0; i < choice.alternatives.size(); i++) {
      const Alternative& a = choice.alternatives[i];
      if (wish == 2 && i > 0 && !a.joined && choice.alternatives.back().joined) continue;
      if (wish > 0 && choice.picked == 0 && i > 0) choice.picked = i;
      else if ((wish > 0 || a.error < kMostError) && a.cycles < (a.joined ? kClearly : 1) * choice.alternatives[choice.picked].cycles) choice.picked = i;
    }
    out.push_back(std::move(choice));
  }
}

// Nodes that other choices are about.
Memo<u8> taken_by(const std::vector<Choice>& choices) {
  Memo<u8> taken;
  for (const Choice& c : choices) taken[c.value] = 1;
  return taken;
}

void find_products(const Graph& g, const Target& target, std::vector<Choice>& out) {
  i64 wish = settings::JOIN();
  if (wish == 0) return;
  Memo<u8> taken = taken_by(out);
  Memo<std::vector<UOp>> users = users_of(g.sink);
  for (const JoinedProducts& p : find_joined_products(g, target, users, taken)) {
    Choice choice{Choice::Products};
    choice.value = p.sums[0];
    choice.label = str("products of ", p.rows, "x", p.depth, " with");
    for (size_t i = 0; i < p.columns.size(); i++) choice.label += str(i ? ", " : " ", p.columns[i]);
    choice.alternatives = {{"apart", p.apart_cycles, 0}, {"joined", p.joined_cycles, 0}};
    choice.picked = wish == 1 || (p.joined_cycles < kClearly * p.apart_cycles && p.joined_alone <= p.apart_alone);
    out.push_back(std::move(choice));
  }
}

// Sums that no other choice is about.
void find_sums(const Graph& g, const Target& target, std::vector<Choice>& out) {
  i64 wish = settings::SPLIT();
  if (wish == 0) return;
  std::vector<UOp> order = toposort(g.sink);
  Memo<u8> taken = taken_by(out);
  for (const Choice& c : out) {
    if (c.kind != Choice::Attention) continue;
    for (std::vector<UOp> todo{c.value.src(0)}; !todo.empty();) {  // its softmax, down to the products: rows of one kernel
      UOp u = todo.back();
      todo.pop_back();
      if (taken[u]) continue;
      taken[u] = 1;
      if (!u.is(Op::Reduce) || !u.src(0).is(Op::Mul)) todo.insert(todo.end(), u.src().begin(), u.src().end());
    }
  }
  Regions in = regions(order, std::span(&g.sink, 1));
  for (UOp u : order) {
    if (!u.is(Op::Reduce) || taken[u] || in.of[u]) continue;
    std::optional<SplitSum> s = match_split_sum(u, target, wish == 1);
    if (!s || (wish != 1 && !s->worth) || match_conv3(u)) continue;
    Choice choice{Choice::Sum};
    choice.value = u;
    choice.label = str("sum of ", s->terms, " for ", s->outputs, s->outputs == 1 ? " output" : " outputs");
    choice.alternatives = {{"whole", s->whole_cycles, 0}, {str("in ", s->count, " parts"), s->split_cycles, 0}};
    choice.picked = wish == 1 || s->split_cycles < kClearly * s->whole_cycles;
    out.push_back(std::move(choice));
  }
}

// The first alternative is what realize.cc's rule says, and is picked: that one is tuned on whole models, these figures tell only what a search should ask.
void find_stores(const Graph& g, const Target& target, std::vector<Choice>& out) {
  Memo<u8> taken = taken_by(out);
  for (const StoreChoice& s : close_stores(g, target)) {
    if (taken[s.value]) continue;
    Choice choice{Choice::Store};
    choice.value = s.value;
    choice.label = str(info(s.value.op()).name, " ", shape_text(shape(s.value)), " for ", s.readers, " kernels");
    choice.alternatives = {{kStored, s.stored_cycles, 0}, {kAgain, s.again_cycles, 0}};
    if (!s.stored) std::swap(choice.alternatives[0], choice.alternatives[1]);
    out.push_back(std::move(choice));
  }
}

}  // namespace

std::string Choice::str() const {
  std::string s = label + ":";
  char text[96];
  for (size_t i = 0; i < alternatives.size(); i++) {
    std::snprintf(text, sizeof text, "%s%s %s %.0f kcycles", i ? "," : "", i == picked ? " *" : "", alternatives[i].name.c_str(), alternatives[i].cycles * 1e-3);
    s += text;
  }
  return s;
}

std::vector<Choice> find_choices(const Graph& g, const Target& target) {
  Arena::Scope scope(*g.arena);
  std::vector<Choice> out;
  find_attention(g, target, out);
  find_byte_products(g, target, out);
  find_convolutions(g, target, out);
  find_products(g, target, out);
  find_sums(g, target, out);
  find_stores(g, target, out);
  return out;
}

Graph with_choices(const Graph& g, const Target& target, const std::vector<Choice>& choices, bool derive) {
  Arena::Scope scope(*g.arena);
  asked() = {};  // of other picks
  Graph r = g;
  std::map<u32, Attention> joined;  // by node id
  std::map<u32, SplitSum> split;    // by node id
  Memo<u8> keep;                    // 1: computed again, 2: stored
  bool any_kept = false;
  std::vector<JoinedProducts> groups;
  std::map<u32, std::pair<const JoinedProducts*, size_t>> part_of;  // by node id of a top: which member it is
  Memo<std::vector<UOp>> users;
  bool known = false;
  struct Picked {
    Conv3 conv;
    i64 f;
    bool joined;
  };
  std::map<u32, Picked> picked;  // by node id
  std::map<u32, ByteProduct> bytes;
  Memo<u8> buffer;               // values that a transform reads
  auto is_group = [](const Choice& c) { return c.kind == Choice::Products && c.picked; };
  if (std::any_of(choices.begin(), choices.end(), is_group)) {
    users = users_of(g.sink), known = true;
    Memo<u8> taken;
    for (const Choice& c : choices)
      if (c.kind < Choice::Products) taken[c.value] = 1;
    groups = find_joined_products(g, target, users, taken);
  }
  for (const Choice& c : choices) {
    TG_CHECK(c.picked < c.alternatives.size(), "alternative ", c.picked, " of ", c.label);
    if (c.picked == 0) continue;
    if (!known) users = users_of(g.sink), known = true;
    if (c.kind == Choice::Attention) {
      std::optional<Attention> a = match_attention(c.value, users);
      TG_CHECK(a, "not a choice of this graph: ", c.label);
      joined.insert({c.value.id(), *a});
      continue;
    }
    if (c.kind == Choice::Products) {
      auto p = std::find_if(groups.begin(), groups.end(), [&](const JoinedProducts& x) { return x.sums[0] == c.value; });
      TG_CHECK(p != groups.end(), "not a choice of this graph: ", c.label);
      for (size_t m = 0; m < p->tops.size(); m++) part_of[p->tops[m].id()] = {&*p, m};
      continue;
    }
    if (c.kind == Choice::Bytes) {
      std::optional<ByteProduct> p = match_byte_product(c.value, g);
      TG_CHECK(p, "not a choice of this graph: ", c.label);
      buffer[byte_product_input(*p)] = 1;
      bytes.insert({c.value.id(), std::move(*p)});
      continue;
    }
    if (c.kind == Choice::Store) {
      keep[c.value] = 1 + (c.alternatives[c.picked].name == kStored), any_kept = true;
      continue;
    }
    if (c.kind == Choice::Sum) {
      std::optional<SplitSum> sum = match_split_sum(c.value, target, settings::SPLIT() == 1);
      TG_CHECK(sum, "not a choice of this graph: ", c.label);
      split.insert({c.value.id(), *sum});
      continue;
    }
    std::optional<Conv3> conv = match_conv3(c.value);
    TG_CHECK(conv, "not a choice of this graph: ", c.label);
    picked.insert({c.value.id(), {*conv, c.alternatives[c.picked].tile, c.alternatives[c.picked].joined}});
    buffer[winograd_input(*conv)] = 1;
  }
  if (picked.empty() && joined.empty() && bytes.empty() && split.empty() && part_of.empty() && !any_kept) return r;
  std::map<std::pair<u32, i64>, UOp> made;  // (weight, f) -> U: what two convolutions share is transformed once
  std::vector<std::function<void()>> transforms;
  auto filter = [&](const Picked& p) {
    auto [it, fresh] = made.try_emplace({p.conv.weight.id(), p.f});
    if (!fresh) return it->second;
    const ConstantData& w = g.constants[size_t(p.conv.weight.arg_int())];
    i64 all = places(p.conv, p.f, 0) * places(p.conv, p.f, 1);
    ConstantData u{str(w.name, " F(", p.f, ",3)"), Kind::F32, {all, p.conv.in, p.conv.out}, {}, {}, {}};
    if (derive) {
      u.made_of = winograd_weights(p.conv, p.f);
    } else {
      std::shared_ptr<f32[]> owner(new f32[size_t(all * p.conv.in * p.conv.out)]);
      u.bytes = std::span(reinterpret_cast<const u8*>(owner.get()), size_t(all * p.conv.in * p.conv.out) * sizeof(f32));
      transforms.push_back([p, bytes = w.bytes, to = owner.get()] { winograd_weights(p.conv, p.f, bytes, to); });
      u.owner = owner;
    }
    r.constants.push_back(u);
    return it->second = tensor::constant(i64(r.constants.size()) - 1, Kind::F32, dims(u.dims));
  };
  auto add = [&](ConstantData c) {
    r.constants.push_back(std::move(c));
    return tensor::constant(i64(r.constants.size()) - 1, r.constants.back().dtype, dims(r.constants.back().dims));
  };
  std::map<u32, UOp> centred;  // by weight: its bytes as i8
  auto by_bytes = [&](const ByteProduct& p, UOp x) {
    const ConstantData w = g.constants[size_t(p.weight.arg_int())];
    auto [it, fresh] = centred.try_emplace(p.integers.id(), p.weight);
    if (fresh)
      if (std::optional<ConstantData> c = centred_weights(p, w)) it->second = add(std::move(*c));
    return byte_product(p, x, it->second, add(weight_sums(p, w)), target);
  };
  Memo<UOp> to;
  std::map<const JoinedProducts*, UOp> whole;
  auto part_made = [&](const JoinedProducts& p, size_t member) {
    auto [it, fresh] = whole.try_emplace(&p);
    if (fresh) it->second = joined_products(p, g, to, add, derive);
    return part(p, it->second, member);
  };
  auto fixed = [&](UOp u) {
    return u.is(Op::Param) || std::any_of(g.sink.src().begin(), g.sink.src().end(), [&](UOp o) { return to[o] == u || o == u; });
  };
  for (UOp u : toposort(g.sink)) {
    std::vector<UOp> src;
    bool same = true;
    for (UOp s : u.src()) src.push_back(to[s]), same &= src.back() == s;
    auto it = picked.find(u.id());
    if (auto j = joined.find(u.id()); j != joined.end()) to[u] = joined_attention(j->second, to, fixed);
    else if (auto b = bytes.find(u.id()); b != bytes.end()) to[u] = by_bytes(b->second, to[b->second.sum.src(0).src(b->second.x_side)]);
    else if (auto p = part_of.find(u.id()); p != part_of.end()) to[u] = part_made(*p->second.first, p->second.second);
    else if (auto j = split.find(u.id()); j != split.end()) to[u] = split_sum(j->second, src[0]);
    else if (it != picked.end()) {
      const Picked& p = it->second;
      UOp x = to[p.conv.x];
      // An input of the model lies by rows: one copy with channels side by side costs less than a transform that gathers them.
      if (winograd_input(p.conv).is(Op::Param) && p.conv.in >= kCopiedChannels) x = tensor::contiguous(x);
      to[u] = (p.joined ? winograd_in_pieces : winograd)(p.conv, p.f, x, filter(p), target);
    }
    else to[u] = same ? u : with_src(u, src);
    bool has_one = u.in(Op::Param | Op::Constant | Op::Concat | Op::Scatter | Op::Sort | Op::Scan | Op::Contiguous);
    if (keep[u]) store_otherwise(to[u], keep[u] == 2);
    if (buffer[u] && !has_one && !is_kept(u)) to[u] = tensor::contiguous(to[u]);
  }
  r.sink = to[g.sink];
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < transforms.size();) transforms[i]();
  };
  std::vector<std::thread> threads;
  for (i64 i = 1; i < std::min<i64>(settings::cores(), i64(transforms.size())); i++) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return r;
}

}  // namespace tg
