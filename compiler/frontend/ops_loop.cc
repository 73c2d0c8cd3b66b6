// Loop and Scan become a LOOP of the graph, or copies of the body where that pays or nothing else can be. https://onnx.ai/onnx/operators/
#include <algorithm>

#include "formats/onnx.pb.h"
#include "frontend/declared.h"
#include "frontend/onnx_op.h"
#include "frontend/pool.h"
#include "frontend/sequence.h"
#include "frontend/size_list.h"
#include "rules/at_bounds.h"
#include "rules/symbolic.h"

namespace tg {
namespace {

constexpr i64 kUnrollWhenSmall = 32;   // rounds times nodes: copies that are smaller than a loop
constexpr i64 kUnrollMost = 4096;      // and the most, where a body has no form as a loop
constexpr i64 kMany = i64(1) << 62;    // rounds of a loop without a limit

// What both operators have: a body over carried values and the number of the round, made once. `scans`: its values of each round.
struct Body {
  Tensors inits;
  UOp count, go, next_go;
  Tensors next, scans;
};

// Carried values that stay what they are belong to no round. Gives the last carried values, then the scanned ones.
Tensors build_loop(OnnxNode& n, i64 id, const Tensors& carries, Body b) {
  std::vector<UOp> roots{b.next_go};
  for (Tensors* part : {&b.next, &b.scans})
    for (Tensor& t : *part) roots.push_back(t.uop());
  std::vector<std::pair<UOp, UOp>> same;
  std::vector<UOp> inits, nexts, scans;
  std::vector<i64> place(carries.size(), -1);
  for (size_t i = 0; i < carries.size(); i++) {
    const Tensor &init = b.inits[i], &next = b.next[i];
    if (next.uop() == carries[i].uop()) {
      same.push_back({carries[i].uop(), init.uop()});
      continue;
    }
    n.require(next.dtype() == init.dtype(), "carried value ", i, " is ", name(init.dtype()), " at first and ", name(next.dtype()), " after a round");
    n.require(same_shape(next.shape(), init.shape()), "carried value ", i, " is ", shape_text(init.shape()), " at first and ", shape_text(next.shape()),
              " after a round; shapes that change from round to round are not supported");
    // Its number among those that change.
    place[i] = i64(inits.size());
    same.push_back({carries[i].uop(), tensor::carry({id, place[i]}, init.dtype(), init.shape())});
    inits.push_back(init.uop());
  }
  UOp all = node(Op::Sink, Kind::Void, std::span<const UOp>(roots));
  UOp made = substitute(all, same);
  size_t k = 1;
  for (size_t i = 0; i < carries.size(); i++, k++)
    if (place[i] >= 0) nexts.push_back(made.src(k));
  for (; k < made.nsrc(); k++) scans.push_back(made.src(k));
  Tensors out;
  UOp l = inits.empty() && scans.empty() ? UOp() : tensor::loop(id, b.count, b.go, inits, made.src(0), nexts, scans);
  for (size_t i = 0; i < carries.size(); i++) out.push_back(place[i] < 0 ? b.inits[i] : Tensor(tensor::get(l, place[i])));
  for (size_t i = 0; i < scans.size(); i++) out.push_back(Tensor(tensor::get(l, i64(inits.size() + i))));
  return out;
}

// --- Loop -------------------------------------------------------------------------------------------------------------------------------
class Loop {
 public:
  explicit Loop(OnnxNode& n) : n_(n), body_(n.attr_graph("body")) {
    n.require(body_.input_size() >= 2 && body_.output_size() >= 1, "the body has ", body_.input_size(), " inputs and ", body_.output_size(), " outputs");
    carried_ = size_t(body_.input_size()) - 2;
    n.require(size_t(body_.output_size()) >= 1 + carried_ && n.inputs() <= 2 + carried_, "the body has ", body_.output_size(), " outputs for ", carried_,
              " carried values, the node ", n.inputs(), " inputs");
    scans_ = size_t(body_.output_size()) - 1 - carried_;
    for (size_t i = 0; i < carried_; i++) inits_.push_back(n.any(2 + i));
    limit_ = n.opt(0), cond_ = n.opt(1);
    if (limit_) n.require(limit_.is_int() && limit_.numel() == 1, "the number of rounds must be one integer");
    if (cond_) n.require(cond_.dtype() == DType(Kind::Bool) && cond_.numel() == 1, "the condition must be one bool");
    if (!limit_) rounds_ = kMany;
    else if (n.is_constant(0)) rounds_ = std::max<i64>(0, n.integer(0));
    else if (n.has_dims(0)) free_rounds_ = normal_dim(max(n.dim(0), idx(0)));
    if (cond_ && n.is_constant(1) && !n.constant(1).v[0]) rounds_ = 0;
    sure_ = !cond_ || n.is_constant(1);
  }

  Tensors build() {
    bool tensors = std::none_of(inits_.begin(), inits_.end(), [](const Tensor& t) { return not_tensor(t); });
    i64 nodes = std::max(1, body_.node_size());
    bool known = rounds_ && sure_ && *rounds_ > 0 && *rounds_ <= kUnrollMost / nodes;
    if (known && (!tensors || *rounds_ == 1 || *rounds_ <= kUnrollWhenSmall / nodes)) {
      std::string why;
      if (std::optional<Tensors> r = unrolled(&why)) return *r;
      if (!tensors) n_.fail(why);
    }
    n_.require(tensors, "it carries ", tensors ? "" : not_tensor(*std::find_if(inits_.begin(), inits_.end(), not_tensor)),
               ", for which the number of rounds must be known while compiling; fix it with --fix");
    std::string why;
    size_t measured = n_.measures();
    if (std::optional<Tensors> r = looped(&why)) return *r;
    n_.forget_measures(measured);
    std::string not_unrolled;
    if (known)
      if (std::optional<Tensors> r = unrolled(&not_unrolled)) return *r;
    n_.fail("its body cannot be built for a round of any number: ", why);
  }

 private:
  std::optional<Tensors> looped(std::string* why) {
    i64 id = Pool::current().next_loop();
    Body b;
    b.inits = inits_;
    b.go = cond_ ? Pool::current().fold(cond_.reshape(Shape{}).uop()) : konst(Kind::Bool, 1);
    // Of what each round gives there are as many places as rounds, or as the model declares or --var allows where a run alone knows these.
    UOp limit = rounds_ && *rounds_ < kMany ? idx(*rounds_) : free_rounds_;
    std::optional<Ints> declared;
    std::optional<i64> allowed;
    bool open = !limit || !sure_;
    size_t sized = carried_;  // the output whose first axis they are
    for (size_t i = 0; open && i < scans_ && !declared && !allowed; i++) {
      declared = limit ? n_.declared(sized = carried_ + i, 1) : n_.declared(sized = carried_ + i);
      if (declared && declared->empty()) declared.reset();
      if (!declared && !limit) allowed = n_.most_allowed(sized);
    }
    if (declared && limit && !always_le(idx((*declared)[0]), limit)) declared.reset();
    if (!declared && !allowed) sized = carried_;
    UOp places = limit ? limit : declared ? idx((*declared)[0]) : allowed ? idx(*allowed) : UOp();
    if (!moving_.empty() && !places) places = places_of_moving(&declared, &sized);
    bool by_moving = sized < carried_ || (!scans_ && !moving_.empty());
    Moving one{sized, 0, 1};  // whose size tells how many rounds there were
    if (by_moving) one = *std::find_if(moving_.begin(), moving_.end(), [&](const Moving& m) { return !places_by_ || m.value == sized; }), sized = one.value;
    UOp from = by_moving ? inits_[one.value].dim(one.axis) : idx(0);
    UOp step = tensor::step(id, places ? places : idx(kMany));
    Tensors carries, in;
    // In every round that runs the condition is true.
    in = {Tensor(cast(step, Kind::I64)), Tensor(konst(Kind::Bool, 1))};
    for (size_t i = 0; i < carried_; i++) {
      // What the body hands on as it is is the same in each round, and may be a constant.
      if (passes(int(1 + i), int(2 + i))) in.push_back(inits_[i]);
      else in.push_back(Tensor(tensor::carry({id, i64(i)}, inits_[i].dtype(), at_round(i, places, true))));
      carries.push_back(in.back());
      if (moves(i)) in.back() = Tensor(first_places(in.back().uop(), at_round(i, step)));
    }
    size_t measured = n_.measures();
    std::optional<Tensors> out = n_.try_subgraph(body_, in, why);
    if (!out) return {};
    if (moving_.empty() && changes_shape(*out)) {
      n_.forget_measures(measured);
      if (!find_moving(why)) return {};
      return looped(why);
    }
    n_.require((*out)[0].dtype() == DType(Kind::Bool) && (*out)[0].numel() == 1, "the body's condition must be one bool");
    for (const Tensor& t : *out)
      if (const char* what = not_tensor(t)) return *why = str("it makes ", what), std::nullopt;
    if (!keep_at_bounds(in, carries, step, places, &*out, why)) return {};
    count_by_rounds(step, carries, &*out);
    b.next_go = Pool::current().fold((*out)[0].reshape(Shape{}).uop());
    if (std::optional<i64> n = rounds_ ? rounds_until(b.next_go, step) : std::nullopt) limit = idx(std::min(*n, *rounds_)), b.next_go = konst(Kind::Bool, 1);
    if (free_rounds_ && goes_on_until(b.next_go, step, free_rounds_)) b.next_go = konst(Kind::Bool, 1);
    b.next.assign(out->begin() + 1, out->begin() + 1 + i64(carried_));
    b.scans.assign(out->begin() + 1 + i64(carried_), out->end());
    if (rounds_ == 0) return none(b.scans);
    bool all = b.go.is_const(1) && b.next_go.is_const(1);
    // How many rounds there are is what the run finds: of a number that is given, before the loop; else the loop counts them, and one more where it
    // would go on and there is no place.
    UOp size;  // of axis one.axis of result `sized`
    auto measure_rounds = [&](const Tensor& count) {
      Tensor n = count * f64(one.by) + count.like(from);
      if (declared) {
        Shape s = by_moving ? inits_[sized].shape() : b.scans[sized - carried_].shape();
        if (!by_moving) s.insert(s.begin(), idx(0));
        n_.must_have(sizes::with(sizes::of(s), one.axis, n), *declared, sized);
        size = idx((*declared)[size_t(one.axis)]);
      } else {
        size = n_.measured(n, places ? std::optional(size_bounds(from + max(places * one.by, idx(0))).hi) : std::nullopt, sized, one.axis);
      }
      UOp more = one.by > 0 ? size - from : from - size;
      return by_moving ? normal_dim(max(more, idx(0)) / idx(std::abs(one.by))) : size;
    };
    bool counted = (scans_ || !moving_.empty()) && !(all && limit);
    if (counted && all && limit_) {
      limit = measure_rounds(limit_.cast(Kind::I64).reshape(Shape{}).max(Tensor::integer(Kind::I64, 0)));
      counted = false;
    }
    for (size_t i = 0; i < scans_; i++)
      for (UOp d : b.scans[i].shape())
        for (UOp u : toposort(d)) n_.require(!u.is(Op::Step) || u.arg_int() != id, "scanned value ", i, " has another shape in each round: ", shape_text(b.scans[i].shape()));
    for (size_t i = 0; i < carried_; i++)
      if (moves(i)) b.inits[i] = Tensor(padded_to(inits_[i].uop(), at_round(i, places, true)));
    if (counted) {
      if (!places) (void)n_.measured(Tensor(tensor::carry({id, 0}, Kind::I64, {})), {}, sized);  // fails: nothing bounds it
      if (limit_ && !limit) {
        UOp most = Tensor(limit_).cast(Kind::I64).reshape(Shape{}).uop();
        b.go = alu(Op::And, {b.go, lt(konst(Kind::I64, 0), most)});
        b.next_go = alu(Op::And, {b.next_go, lt(cast(step + 1, Kind::I64), most)});
      }
      UOp more = limit ? konst(Kind::I64, 0) : cast(b.next_go, Kind::I64);
      limit = places;
      b.inits.push_back(Tensor(places.is_const(0) ? cast(b.go, Kind::I64) : konst(Kind::I64, 0)));
      carries.push_back(Tensor(tensor::carry({id, i64(carried_)}, Kind::I64, {})));
      b.next.push_back(Tensor(cast(step + 1, Kind::I64) + more));
    }
    b.count = limit ? limit : limit_ && !rounds_ ? limit_.cast(Kind::I64).reshape(Shape{}).uop() : idx(kMany);
    try {
      Tensors r = build_loop(n_, id, carries, b);
      UOp rounds = limit;
      if (counted) {
        Tensor found = r[carried_];
        r.erase(r.begin() + i64(carried_));
        rounds = measure_rounds(found);
        for (size_t i = 0; i < scans_; i++) r[carried_ + i] = r[carried_ + i].shrink(0, idx(0), rounds);
      }
      for (size_t i = 0; i < carried_; i++) {
        if (!moves(i)) continue;
        Shape last = at_round(i, rounds);
        if (by_moving && size && i == sized) last[size_t(one.axis)] = size;
        r[i] = Tensor(first_places(r[i].uop(), last));
      }
      return r;
    } catch (const Error& e) {
      return *why = e.what(), std::nullopt;
    }
  }

  // --- carried values whose shape changes by the round, by the same number of elements each: they lie in a buffer of the largest shape
  struct Moving {
    size_t value;
    i64 axis, by;
  };
  bool moves(size_t i) const {
    return std::any_of(moving_.begin(), moving_.end(), [&](const Moving& m) { return m.value == i; });
  }
  // The shape of a carried value as round `round` begins; most: the largest up to then.
  Shape at_round(size_t i, UOp round, bool most = false) const {
    Shape s = inits_[i].shape();
    for (const Moving& m : moving_)
      if (m.value == i && (m.by > 0 || !most)) s[size_t(m.axis)] = normal_dim(s[size_t(m.axis)] + round * m.by);
    return s;
  }
  bool changes_shape(const Tensors& out) const {
    for (size_t i = 0; i < carried_; i++)
      if (!not_tensor(out[1 + i]) && out[1 + i].rank() == inits_[i].rank() && !same_shape(out[1 + i].shape(), inits_[i].shape())) return true;
    return false;
  }

  // Builds the body with variables for the sizes that change, until no other does.
  bool find_moving(std::string* why) {
    constexpr i64 kTried = 16;  // elements more than at first; what is found is checked when the body is built for good
    std::vector<Shape> now;
    for (const Tensor& t : inits_) now.push_back(t.shape());
    std::vector<Moving> found;
    for (bool more = true; more;) {
      more = false;
      i64 id = Pool::current().next_loop();
      size_t measured = n_.measures();
      Tensors in{Tensor(cast(tensor::step(id, idx(kMany)), Kind::I64)), Tensor(konst(Kind::Bool, 1))};
      for (size_t i = 0; i < carried_; i++)
        in.push_back(passes(int(1 + i), int(2 + i)) ? inits_[i] : Tensor(tensor::carry({id, i64(i)}, inits_[i].dtype(), now[i])));
      std::optional<Tensors> out = n_.try_subgraph(body_, in, why);
      n_.forget_measures(measured);
      if (!out) return false;
      for (size_t i = 0; i < carried_; i++) {
        if (not_tensor((*out)[1 + i]) || (*out)[1 + i].rank() != inits_[i].rank()) return *why = str("carried value ", i, " changes its rank from round to round"), false;
        const Shape& next = (*out)[1 + i].shape();
        for (size_t a = 0; a < next.size(); a++) {
          auto m = std::find_if(found.begin(), found.end(), [&](const Moving& x) { return x.value == i && x.axis == i64(a); });
          UOp by = normal_dim(next[a] - now[i][a]);
          if (m == found.end()) {
            if (by.is_const(0)) continue;
            found.push_back({i, i64(a), 0});
            now[i][a] = var(str("axis ", a, " of carried value ", i), 1, size_bounds(inits_[i].shape()[a]).hi + kTried);
            more = true;
          } else if (!more) {
            if (!by.is_const()) return *why = str("axis ", a, " of carried value ", i, " becomes ", next[a].str(), " after a round; it can grow or shrink by a number that is the same in each"), false;
            m->by = by.as_int();
          }
        }
      }
    }
    moving_ = found;
    return true;
  }

  // How many rounds there is room for, by what is declared or allowed of a value that grows.
  UOp places_of_moving(std::optional<Ints>* declared, size_t* sized) {
    for (const Moving& m : moving_) {
      if (m.by <= 0) continue;
      std::optional<Ints> d = n_.declared(m.value);
      std::optional<i64> most = d && d->size() > size_t(m.axis) ? std::optional((*d)[size_t(m.axis)]) : n_.most_allowed(m.value, m.axis);
      if (!most) continue;
      if (d) *declared = d;
      *sized = m.value, places_by_ = true;
      return idx(std::max<i64>(0, (*most - size_bounds(inits_[m.value].dim(m.axis)).lo) / m.by));
    }
    for (const Moving& m : moving_)
      if (m.by > 0) return n_.measured(Tensor(tensor::carry({-1, 0}, Kind::I64, {})), {}, m.value, m.axis);  // fails: nothing bounds it
    *sized = moving_[0].value, places_by_ = true;
    return normal_dim(inits_[moving_[0].value].dim(moving_[0].axis) / idx(-moving_[0].by));
  }

  // What the body makes of values that change their shape, in a buffer of the largest. A value with new elements behind its old ones is itself that buffer:
  // what is new is stored there.
  bool keep_at_bounds(const Tensors& in, const Tensors& carries, UOp step, UOp places, Tensors* out, std::string* why) {
    std::vector<std::pair<UOp, UOp>> grown;
    std::vector<UOp> kept(carried_);
    for (size_t i = 0; i < carried_; i++) {
      if (!moves(i)) continue;
      UOp next = (*out)[1 + i].uop(), view = in[2 + i].uop();
      Shape after = at_round(i, step + 1), most = at_round(i, places, true);
      for (const Moving& m : moving_)
        if (m.value == i && size_bounds(inits_[i].dim(m.axis) + places * m.by).lo < 0)
          return *why = str("axis ", m.axis, " of carried value ", i, " loses ", -m.by, " elements a round, more than it has in ", places.str(), " rounds"), false;
      if (!same_shape(shape(next), after)) return *why = str("carried value ", i, " is ", shape_text(shape(next)), " after a round, expected ", shape_text(after)), false;
      size_t axes = 0;
      for (const Moving& m : moving_) axes += m.value == i;
      if (axes == 1) kept[i] = appended(next, view, carries[i].uop());
      if (kept[i]) {
        if (!same_shape(shape(kept[i]), most)) return *why = str("carried value ", i, " is ", shape_text(shape(kept[i])), " with its border, expected ", shape_text(most)), false;
        grown.push_back({next, first_places(kept[i], after)});
      } else {
        kept[i] = padded_to(next, most);
      }
    }
    for (size_t i = 0; i < out->size(); i++) {
      UOp u = i && i <= carried_ && kept[i - 1] ? kept[i - 1] : (*out)[i].uop();
      (*out)[i] = Tensor(grown.empty() ? u : substitute(u, grown));
    }
    return true;
  }

  // A carried integer that grows by a constant is a function of the round.
  void count_by_rounds(UOp step, const Tensors& carries, Tensors* out) {
    std::vector<std::pair<UOp, UOp>> map;
    for (size_t i = 0; i < carried_; i++) {
      UOp c = carries[i].uop(), next = (*out)[1 + i].uop();
      const Values* from = c.is(Op::Carry) && is_int(c.dtype()) && carries[i].numel() == 1 ? Pool::current().value(inits_[i].uop()) : nullptr;
      if (!from || !next.is(Op::Add) || next.src(0) != c || !splat(next.src(1))) continue;
      UOp now = cast(step * splat(next.src(1)).as_int() + i64(from->v[0]), c.dtype());
      map.push_back({c, Tensor(now).reshape(carries[i].shape()).uop()});
    }
    if (map.empty()) return;
    for (Tensor& t : *out) t = Tensor(substitute(t.uop(), map));
  }

  // How many rounds run if the condition is a function of the round alone.
  std::optional<i64> rounds_until(UOp next_go, UOp step) const {
    constexpr i64 kTried = 4096;
    if (next_go.is_const(1)) return {};
    i64 most = rounds_ ? *rounds_ : kMany;
    for (i64 n = 0; n < kTried; n++) {
      if (n + 1 == most) return most;
      std::pair<UOp, UOp> at{step, idx(n)};
      const Values* v = Pool::current().value(substitute(next_go, std::span(&at, 1)));
      if (!v) return {};
      if (!v->v[0]) return n + 1;
    }
    return {};
  }

  // Is the condition, made of sizes and of the number of the round, true in every round before the last of `count`?
  static bool goes_on_until(UOp next_go, UOp step, UOp count) {
    UOp round = var("the round", 0, std::max<i64>(0, size_bounds(count).hi - 1));
    std::pair<UOp, UOp> at{step, round};
    const std::vector<UOp>* v = size_list(substitute(next_go, std::span(&at, 1)));
    return v && simplify_given((*v)[0], lt(round + 1, count)).is_const(1);
  }

  // Does output `out` of the body give its input `in` unchanged?
  bool passes(int out, int in) const {
    std::string name = body_.output(out).name();
    for (int i = body_.node_size(); i-- > 0;) {
      const tgonnx::NodeProto& p = body_.node(i);
      if (p.op_type() == "Identity" && p.input_size() == 1 && p.output_size() == 1 && p.output(0) == name) name = p.input(0);
    }
    return name == body_.input(in).name();
  }

  Tensors none(const Tensors& scans) {
    Tensors out = inits_;
    for (const Tensor& t : scans) {
      Shape s = t.shape();
      s.insert(s.begin(), idx(0));
      out.push_back(Tensor::full(s, t.dtype(), 0));
    }
    return out;
  }

  std::optional<Tensors> unrolled(std::string* why) {
    Tensors now = inits_;
    std::vector<Tensors> scanned(scans_);
    for (i64 round = 0; round < *rounds_; round++) {
      Tensors in{Tensor::integer(Kind::I64, round), Tensor(konst(Kind::Bool, 1))};
      in.insert(in.end(), now.begin(), now.end());
      std::optional<Tensors> out = n_.try_subgraph(body_, in, why);
      if (!out) return {};
      for (size_t i = 0; i < carried_; i++) now[i] = (*out)[1 + i];
      for (size_t i = 0; i < scans_; i++) {
        if (const char* what = not_tensor((*out)[1 + carried_ + i])) return *why = str("it gives ", what, " of each round"), std::nullopt;
        scanned[i].push_back((*out)[1 + carried_ + i].unsqueeze(0));
      }
      const Values* go = Pool::current().value((*out)[0].uop());
      if (!go) return *why = "its condition is known at run time only", std::nullopt;
      if (!go->v[0]) break;
    }
    for (Tensors& t : scanned) now.push_back(Tensor::concat(t, 0));
    return now;
  }

  OnnxNode& n_;
  const tgonnx::GraphProto& body_;
  size_t carried_ = 0, scans_ = 0;
  Tensors inits_;
  Tensor limit_, cond_;
  std::optional<i64> rounds_;  // at most; none: known at run time
  UOp free_rounds_;            // the same as an expression of free sizes
  bool sure_ = true;           // the first round depends on rounds_ alone
  std::vector<Moving> moving_;
  bool places_by_ = false;     // one of them says how many rounds there is room for
};

Tensors loop_op(OnnxNode& n) { return Loop(n).build(); }

// --- Scan -------------------------------------------------------------------------------------------------------------------------------
struct ScanPlan {
  Tensors states, inputs;      // of the inputs, the scanned axis first
  Ints reverse_in, reverse_out;
  size_t outputs = 0;          // scanned ones
};

// Carried values, then scanned ones with the scanned axis first.
Tensors scan_over(OnnxNode& n, const tgonnx::GraphProto& body, const ScanPlan& p, const Tensor& length) {
  i64 id = Pool::current().next_loop();
  Body b;
  b.inits = p.states;
  b.count = p.inputs[0].dim(0), b.go = b.next_go = konst(Kind::Bool, 1);
  UOp step = tensor::step(id, b.count);
  Tensors carries, in;
  for (size_t i = 0; i < p.states.size(); i++) carries.push_back(Tensor(tensor::carry({id, i64(i)}, p.states[i].dtype(), p.states[i].shape())));
  in = carries;
  for (size_t i = 0; i < p.inputs.size(); i++) {
    Tensor x = p.inputs[i];
    n.require(x.dim(0) == b.count, "scan inputs of ", shape_text({b.count}), " and ", shape_text({x.dim(0)}), " elements");
    if (p.reverse_in[i]) x = x.flip(Ints{0});
    Shape element(x.shape().begin() + 1, x.shape().end());
    in.push_back(Tensor(tensor::slice(x.uop(), 0, step, step + 1)).reshape(element));
  }
  Tensors out = n.subgraph(body, in);
  for (size_t i = 0; i < out.size(); i++) {
    Tensor t = out[i];
    if (const char* what = not_tensor(t)) n.fail("output ", i, " of the body is ", what);
    bool state = i < carries.size();
    if (length) {
      // Past its end a sequence keeps its state and gives zeros.
      Tensor inside = Tensor(cast(step, Kind::I64)).lt(length);
      t = where(inside, t, state ? carries[i] : t.like(0));
    }
    (state ? b.next : b.scans).push_back(t);
  }
  Tensors r = build_loop(n, id, carries, std::move(b));
  for (size_t i = 0; i < p.outputs; i++)
    if (p.reverse_out[i]) r[carries.size() + i] = r[carries.size() + i].flip(Ints{0});
  return r;
}

Ints directions(OnnxNode& n, const char* attr, size_t count) {
  Ints d = n.attr(attr, Ints(count, 0));
  n.require(d.size() == count, attr, " has ", d.size(), " entries for ", count);
  for (i64 v : d) n.require(v == 0 || v == 1, attr, " must be 0 or 1, not ", v);
  return d;
}

size_t scanned_inputs(OnnxNode& n, const tgonnx::GraphProto& body, size_t before) {
  i64 inputs = n.attr_int("num_scan_inputs");
  n.require(inputs >= 1 && inputs <= body.input_size() && n.inputs() == before + size_t(body.input_size()) && body.output_size() >= body.input_size() - inputs,
            inputs, " scan inputs of ", n.inputs(), " inputs, for a body with ", body.input_size(), " inputs and ", body.output_size(), " outputs");
  return size_t(inputs);
}

// The axis at position 0 moved to `axis`.
Tensor moved_back(const Tensor& t, i64 axis) {
  Ints order;
  for (i64 i = 1; i < t.rank(); i++) order.push_back(i);
  order.insert(order.begin() + t.axis(axis), 0);
  return t.permute(order);
}
Tensor moved_front(const Tensor& t, i64 axis) {
  axis = t.axis(axis);
  Ints order{axis};
  for (i64 i = 0; i < t.rank(); i++)
    if (i != axis) order.push_back(i);
  return t.permute(order);
}

Tensors scan_9(OnnxNode& n) {
  const tgonnx::GraphProto& body = n.attr_graph("body");
  size_t inputs = scanned_inputs(n, body, 0), states = n.inputs() - inputs;
  ScanPlan p;
  p.outputs = size_t(body.output_size()) - states;
  p.reverse_in = directions(n, "scan_input_directions", inputs), p.reverse_out = directions(n, "scan_output_directions", p.outputs);
  Ints in_axes = n.attr("scan_input_axes", Ints(inputs, 0)), out_axes = n.attr("scan_output_axes", Ints(p.outputs, 0));
  n.require(in_axes.size() == inputs && out_axes.size() == p.outputs, "scan_input_axes and scan_output_axes have ", in_axes.size(), " and ",
            out_axes.size(), " entries for ", inputs, " and ", p.outputs);
  for (size_t i = 0; i < states; i++) p.states.push_back(n[i]);
  for (size_t i = 0; i < inputs; i++) p.inputs.push_back(moved_front(n[states + i], in_axes[i]));
  Tensors out = scan_over(n, body, p, {});
  for (size_t i = 0; i < p.outputs; i++) out[states + i] = moved_back(out[states + i], out_axes[i]);
  return out;
}

// Each row of a batch is a scan of its own: a loop over the rows around the loop over the elements.
Tensors scan_8(OnnxNode& n) {
  const tgonnx::GraphProto& body = n.attr_graph("body");
  size_t inputs = scanned_inputs(n, body, 1), states = n.inputs() - 1 - inputs;
  ScanPlan p;
  p.outputs = size_t(body.output_size()) - states;
  p.reverse_in = directions(n, "directions", inputs), p.reverse_out = Ints(p.outputs, 0);
  Tensor lengths = n.opt(0);
  if (lengths)
    for (i64 reverse : p.reverse_in) n.require(!reverse, "sequence_lens with a reversed input is not supported");
  UOp rows = n[1].dim(0);
  i64 id = Pool::current().next_loop();
  UOp row = tensor::step(id, rows);
  auto of_row = [&](const Tensor& x) {
    n.require(x.rank() >= 1 && x.dim(0) == rows, "inputs of a batch of ", shape_text({rows}), " and of shape ", shape_text(x.shape()));
    return Tensor(tensor::slice(x.uop(), 0, row, row + 1)).reshape(Shape(x.shape().begin() + 1, x.shape().end()));
  };
  for (size_t i = 0; i < states; i++) p.states.push_back(of_row(n[1 + i]));
  for (size_t i = 0; i < inputs; i++) p.inputs.push_back(of_row(n[1 + states + i]));
  Body b;
  b.count = rows, b.go = b.next_go = konst(Kind::Bool, 1);
  b.scans = scan_over(n, body, p, lengths ? of_row(lengths.cast(Kind::I64)) : Tensor());
  return build_loop(n, id, {}, std::move(b));
}

// clang-format off
constexpr OnnxOp kLoopOps[] = {
  {"Loop",                1, loop_op},
  {"Scan",                8, scan_8},
  {"Scan",                9, scan_9},
};
// clang-format on

}  // namespace

std::span<const OnnxOp> loop_ops() { return kLoopOps; }

}  // namespace tg
