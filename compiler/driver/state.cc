#include "driver/state.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/rewrite.h"
#include "rules/at_bounds.h"
#include "rules/sizes.h"
#include "rules/symbolic.h"

namespace tg::driver {
namespace {

class FreeState {
 public:
  FreeState(Graph& g) : g_(g), outs_(g.sink.src().begin(), g.sink.src().end()), pairs_(g.state) {}

  void run() {
    for (auto [out, in] : pairs_) look_at(out, in);
    if (grows_.empty() && kept_.empty()) return;
    read_from_views();
    for (auto [out, in] : pairs_) keep_output(out, in);
    std::vector<MeasuredSize> measured;
    std::vector<UOp> values;
    for (auto& [v, next] : grows_) grown_size(v, next, &measured, &values);
    for (UOp v : kept_) kept_size(v, &measured, &values);
    size_t outputs = g_.outputs.size() - added_.size();
    std::vector<UOp> all(outs_.begin(), outs_.begin() + i64(outputs));
    all.insert(all.end(), added_.begin(), added_.end());
    all.insert(all.end(), values.begin(), values.end());
    all.insert(all.end(), outs_.begin() + i64(outputs), outs_.end());
    measured.insert(measured.end(), g_.measured.begin(), g_.measured.end());
    g_.measured = std::move(measured);
    g_.sink = node(Op::Sink, Kind::Void, std::span<const UOp>(all));
    // Sizes of outputs are spelled as the new graph has them.
    for (size_t i = 0; i < outputs; i++) g_.outputs[i].dims = shape(g_.sink.src(i));
  }

 private:
  std::string what(u32 out, u32 in) const { return str("--state ", g_.outputs[out].name, "=", g_.inputs[in].name, ": "); }
  bool given(UOp v) const {
    for (u32 i = 0; i < g_.inputs.size(); i++)
      if (std::none_of(pairs_.begin(), pairs_.end(), [&](auto& p) { return p.second == i; }) &&
          std::find(g_.inputs[i].dims.begin(), g_.inputs[i].dims.end(), v) != g_.inputs[i].dims.end())
        return true;
    return false;
  }

  void look_at(u32 out, u32 in) {
    const Shape &from = g_.inputs[in].dims, &to = g_.outputs[out].dims;
    for (size_t a = 0; a < from.size(); a++) {
      UOp v = from[a];
      if (to[a] == v) {
        if (v.is_const()) continue;
        if (std::find(kept_.begin(), kept_.end(), v) == kept_.end()) kept_.push_back(v);
        continue;
      }
      if (!v.is(Op::Var)) fail(what(out, in), "the output is ", shape_text(to), ", the input ", shape_text(from), "; they must be equal, or the input's axis free");
      if (given(v)) fail(what(out, in), "axis ", a, " of the input, ", v.arg_str(), ", is a size of another input too, and the output has ", to[a].str(), " of it");
      if (v.src(0).as_int() != 0)
        fail(what(out, in), "the state has no elements at first: --var ", v.arg_str(), "=0..", v.src(1).as_int(), " instead of ", v.src(0).as_int(), "..", v.src(1).as_int());
      if (size_bounds(to[a]).lo < 0 || size_bounds(to[a]).hi > 2 * v.src(1).as_int() + (i64(1) << 20)) fail(what(out, in), "the output has ", to[a].str(), " elements along axis ", a);
      auto [it, fresh] = grows_.try_emplace(std::string(v.arg_str()), std::pair(v, to[a]));
      if (!fresh && it->second.second != to[a])
        fail(what(out, in), "axis ", a, " becomes ", to[a].str(), ", which in another state becomes ", it->second.second.str());
    }
  }
  bool grows(UOp v) const { return v.is(Op::Var) && grows_.count(std::string(v.arg_str())); }
  i64 bound(UOp v) const { return std::max(v.src(1).as_int(), size_bounds(grows_.at(std::string(v.arg_str())).second).hi); }
  Shape at_bounds(const Shape& s) const {
    Shape r = s;
    for (UOp& d : r)
      if (grows(d)) d = idx(bound(d));
    return r;
  }

  // The state's buffer is as large as it can get; the graph reads what there is.
  void read_from_views() {
    for (UOp v : kept_)
      if (grows(v)) fail("--state: ", v.arg_str(), " grows in one state and stays in another");
    std::vector<std::pair<UOp, UOp>> map;
    for (auto [out, in] : pairs_) {
      const Value& x = g_.inputs[in];
      UOp old = tensor::param(i64(in), x.dtype, x.dims), now = tensor::param(i64(in), x.dtype, at_bounds(x.dims));
      views_[in] = first_places(now, x.dims);
      if (old != now) map.push_back({old, views_[in]});
    }
    replace(map);
  }
  void replace(const std::vector<std::pair<UOp, UOp>>& map) {
    if (map.empty()) return;
    UOp all = substitute(node(Op::Sink, Kind::Void, std::span<const UOp>(outs_)), map);
    outs_.assign(all.src().begin(), all.src().end());
  }

  void keep_output(u32 out, u32 in) {
    Shape now = g_.inputs[in].dims, most = at_bounds(now);
    if (same_shape(now, most)) return;
    UOp x = outs_[out], view = views_[in], kept;
    std::vector<size_t> axes;
    for (size_t a = 0; a < now.size(); a++)
      if (grows(now[a])) axes.push_back(a);
    if (axes.size() == 1 && x.is(Op::Concat) && size_t(x.arg_int()) == axes[0]) kept = appended(x, view, view.src(0));
    if (kept && !same_shape(shape(kept), most)) kept = {};
    Shape has = shape(x);
    if (kept) replace({{x, first_places(kept, has)}});
    // Who else reads the output reads it where it is kept; a caller who wants it too gets a copy.
    outs_[out] = kept ? kept : padded_to(x, most);
    g_.inputs[in].dims = most;
  }

  u32 add_state(const std::string& name, UOp next) {
    u32 in = u32(g_.inputs.size()), out = u32(g_.outputs.size());
    g_.inputs.push_back({name, Kind::I64, {}});
    g_.outputs.push_back({name + " of the next run", Kind::I64, {}});
    added_.push_back(next);
    g_.state.push_back({out, in});
    return in;
  }
  void grown_size(const std::string& name, const std::pair<UOp, UOp>& s, std::vector<MeasuredSize>* measured, std::vector<UOp>* values) {
    auto [v, next] = s;
    UOp n = tensor::param(i64(add_state(name, cast(next, Kind::I64))), Kind::I64, {});
    measured->push_back({name, 0, v.src(1).as_int(), v.src(2).as_int()});
    values->push_back(n);
  }
  void kept_size(UOp v, std::vector<MeasuredSize>* measured, std::vector<UOp>* values) {
    std::string name(v.arg_str());
    if (!given(v)) fail("--state: nothing says how large ", name, " is: no input that is not state has this size. Fix it with --shape or --var ", name, "=N..N");
    // One more than the size: 0 is a state that no run has used.
    UOp one_more = cast(v + 1, Kind::I64), n = tensor::param(i64(add_state(str(name, " of the state"), one_more)), Kind::I64, {});
    measured->push_back({str("the state was first used with another ", name, ": it keeps its sizes until it is reset (tgb_reset)"), 1, 1, 1});
    values->push_back(cast(eq(n, konst(Kind::I64, 0)) | eq(n, one_more), Kind::I64));
  }

  Graph& g_;
  std::vector<UOp> outs_;                                   // of the SINK: outputs, measured sizes
  std::vector<std::pair<u32, u32>> pairs_;                  // those of the model
  std::map<std::string, std::pair<UOp, UOp>> grows_;        // by name: the variable, and what it is in the next run
  std::vector<UOp> kept_;                                   // variables that stay
  std::map<u32, UOp> views_;                                // by input: what there is of it
  std::vector<UOp> added_;                                  // outputs that are sizes
};

}  // namespace

void pair_state(Graph& g, const std::vector<StatePair>& pairs, const std::string& model) {
  Arena::Scope scope(*g.arena);
  auto find = [&](const std::vector<Value>& list, const std::string& name, const StatePair& p, const char* side) {
    for (u32 i = 0; i < list.size(); i++)
      if (list[i].name == name) return i;
    fail("--state ", p.output, "=", p.input, ": ", model, " has no ", side, " \"", name, "\"; it has ",
         join(list, ", ", [](const Value& v) { return v.name; }));
  };
  for (const StatePair& p : pairs) {
    u32 out = find(g.outputs, p.output, p, "output"), in = find(g.inputs, p.input, p, "input");
    const Value &o = g.outputs[out], &i = g.inputs[in];
    std::string what = str("--state ", p.output, "=", p.input, ": ");
    bool fixed = std::all_of(i.dims.begin(), i.dims.end(), [](UOp d) { return d.is_const(); });
    if (o.dtype != i.dtype || o.dims.size() != i.dims.size() || (fixed && !same_shape(o.dims, i.dims)))
      fail(what, "the output is ", name(o.dtype), shape_text(o.dims), ", the input ", name(i.dtype), shape_text(i.dims), "; they must be equal");
    for (auto [o2, i2] : g.state)
      if (o2 == out || i2 == in) fail(what, o2 == out ? "the output" : "the input", " is in another pair already");
    g.state.push_back({out, in});
  }
  FreeState(g).run();
}

}  // namespace tg::driver
