#include "driver/variants.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"

namespace tg::driver {
namespace {

using bundle::BundleDesc;
using bundle::Expr;

std::string dims_text(const bundle::Signature& s) {
  return str("(", join(s.dims, ", ", [](const bundle::Dim& d) { return d.name.empty() ? str(d.size.value) : d.name; }), ")");
}

class Merger {
 public:
  explicit Merger(std::vector<Captured>& parts) : parts_(parts) {}

  BundleDesc run() {
    out_ = std::move(parts_[0].bundle);
    for (size_t p = 0; p < parts_.size(); p++) join_vars(p ? parts_[p].bundle : out_, p);
    for (size_t p = 1; p < parts_.size(); p++) check_same(parts_[p].bundle);
    sizes();
    remember_constants();
    for (size_t p = 1; p < parts_.size(); p++) add(parts_[p]);
    return std::move(out_);
  }

 private:
  void check_same(const BundleDesc& b) {
    auto side = [](const std::vector<bundle::Signature>& x, const std::vector<bundle::Signature>& y, const char* what) {
      if (x.size() != y.size()) fail("--shape: one of the variants has ", x.size(), " ", what, "s, another ", y.size());
      for (size_t i = 0; i < x.size(); i++)
        if (x[i].name != y[i].name || x[i].dtype != y[i].dtype || x[i].dims.size() != y[i].dims.size())
          fail("--shape: ", what, " \"", x[i].name, "\" is ", tgf::row(x[i].dtype).text, dims_text(x[i]), " in one variant and ", tgf::row(y[i].dtype).text,
               dims_text(y[i]), " in another: name, dtype and rank must be the same in all");
    };
    side(out_.inputs, b.inputs, "input"), side(out_.outputs, b.outputs, "output");
    for (size_t i = 0; i < out_.states.size(); i++)
      if (out_.states[i].bytes != b.states[i].bytes) fail("--state ", out_.states[i].output, "=", out_.states[i].input, ": its size must be the same in all variants");
  }

  // Variables that a run sets itself, measured sizes and rounds of loops: one for all parts where the name is the same, with each part's own bounds.
  void join_vars(BundleDesc& b, size_t p) {
    for (const bundle::Signature& s : b.inputs)
      for (const bundle::Dim& d : s.dims)
        if (!d.size.is_constant()) fail("--shape given several times for an input and --var exclude each other: take variants or free sizes");
    std::vector<u32> to;
    for (const bundle::Var& v : p ? b.vars : std::vector<bundle::Var>(b.vars)) {
      auto same = std::find_if(out_.vars.begin(), out_.vars.end(), [&](const bundle::Var& x) { return x.name == v.name; });
      to.push_back(u32(same - out_.vars.begin()));
      if (same == out_.vars.end()) out_.vars.push_back(v);
      else same->min = std::min(same->min, v.min), same->max = std::max(same->max, v.max), same->multiple = std::gcd(same->multiple, v.multiple);
      b.variants[0].bounds.push_back({to.back(), v.min, v.max});
    }
    if (p) renumber_vars(b, to);
  }

  // The values of one axis over the parts.
  std::vector<i64> values(std::vector<bundle::Signature> BundleDesc::*side, size_t i, size_t k) {
    std::vector<i64> v{(out_.*side)[i].dims[k].size.value};
    for (size_t p = 1; p < parts_.size(); p++) v.push_back((parts_[p].bundle.*side)[i].dims[k].size.value);
    return v;
  }
  static bool constant(const std::vector<i64>& v) { return std::all_of(v.begin(), v.end(), [&](i64 x) { return x == v[0]; }); }

  void sizes() {
    std::map<std::vector<i64>, u32> var_of;
    for (size_t i = 0; i < out_.inputs.size(); i++)
      for (size_t k = 0; k < out_.inputs[i].dims.size(); k++) {
        std::vector<i64> v = values(&BundleDesc::inputs, i, k);
        if (constant(v)) continue;
        auto [it, fresh] = var_of.try_emplace(v, u32(out_.vars.size()));
        if (fresh) {
          auto [lo, hi] = std::minmax_element(v.begin(), v.end());
          out_.vars.push_back({str(out_.inputs[i].name, ".", k), *lo, *hi, 1});
          values_.push_back(v), var_.push_back(it->second);
        }
        out_.inputs[i].dims[k] = {Expr::var(it->second), out_.vars[it->second].name, i32(it->second)};
      }
    for (size_t p = 0; p < parts_.size(); p++)
      for (size_t q = 0; q < p; q++)
        if (std::all_of(values_.begin(), values_.end(), [&](const auto& v) { return v[p] == v[q]; })) fail("--shape: two variants have the same sizes");
    for (size_t i = 0; i < out_.outputs.size(); i++)
      for (size_t k = 0; k < out_.outputs[i].dims.size(); k++) {
        bundle::Dim& d = out_.outputs[i].dims[k];
        bool measured = !d.size.is_constant(), same = true;
        for (size_t p = 1; p < parts_.size(); p++) {
          const Expr& e = parts_[p].bundle.outputs[i].dims[k].size;
          measured |= !e.is_constant(), same &= e.code == d.size.code && e.value == d.size.value;
          if (d.size.most && e.most) d.size.most = std::max(*d.size.most, *e.most);
        }
        if (measured && !same)
          fail("--shape: axis ", k, " of output \"", out_.outputs[i].name, "\" is a size that the run finds, another one in each variant; compile them apart");
        if (measured) continue;
        std::vector<i64> v = values(&BundleDesc::outputs, i, k);
        if (constant(v)) continue;
        if (auto it = var_of.find(v); it != var_of.end()) {
          d = {Expr::var(it->second), out_.vars[it->second].name, i32(it->second)};
          continue;
        }
        // No formula is known: which variant it is decides.
        Expr e(v.back());
        for (size_t p = parts_.size() - 1; p-- > 0;) e = Expr::select(is_variant(p), Expr(v[p]), e);
        e.most = *std::max_element(v.begin(), v.end());
        d = {e, str(out_.outputs[i].name, ".", k), -1};
      }
    bound(out_.variants[0], 0);
  }

  Expr is_variant(size_t p) {
    Expr e(1);
    for (u32 x = 0; x < values_.size(); x++) {
      Expr here = Expr::op(tgf::ExprOp::Eq, Expr::var(var_[x]), Expr(values_[x][p]));
      e = x ? Expr::op(tgf::ExprOp::And, e, here) : here;
    }
    return e;
  }
  void bound(bundle::Variant& v, size_t p) {
    for (u32 x = 0; x < values_.size(); x++) v.bounds.push_back({var_[x], values_[x][p], values_[x][p]});
  }

  void remember_constants() {
    const Captured& first = parts_[0];
    for (size_t c = 0; c < first.keys.size(); c++)
      if (first.constant_of[c] != ~0u) constant_.try_emplace(first.keys[c], first.constant_of[c]);
  }

  void add(Captured& part) {
    BundleDesc& b = part.bundle;
    if (b.targets.size() != 1 || b.variants.size() != 1) fail("a capture has one target and one variant");
    std::vector<u32> constant(b.constants.size(), ~0u), graph_constant(b.constants.size(), ~0u);
    for (size_t c = 0; c < part.constant_of.size(); c++)
      if (part.constant_of[c] != ~0u) graph_constant[part.constant_of[c]] = u32(c);
    std::vector<std::vector<u32>> form(b.constants.size());
    for (u32 c = 0; c < b.constants.size(); c++) {
      TG_CHECK(graph_constant[c] != ~0u, "a constant of no graph");
      auto [it, fresh] = constant_.try_emplace(part.keys[graph_constant[c]], u32(out_.constants.size()));
      constant[c] = it->second;
      if (fresh) out_.constants.push_back({b.constants[c].name, b.constants[c].dtype, b.constants[c].dims, {}});
      std::vector<bundle::Form>& there = out_.constants[constant[c]].forms;
      for (bundle::Form& f : b.constants[c].forms) {
        auto same = std::find_if(there.begin(), there.end(), [&](const bundle::Form& x) { return x.layout == f.layout && x.dtype == f.dtype; });
        form[c].push_back(u32(same - there.begin()));
        if (same == there.end()) there.push_back(std::move(f));
      }
    }
    for (u32& c : part.constant_of)
      if (c != ~0u) c = constant[c];
    std::vector<u32> object, program;
    for (bundle::Bytes& o : b.objects) {
      auto same = std::find_if(out_.objects.begin(), out_.objects.end(), [&](const bundle::Bytes& x) { return std::ranges::equal(x.borrowed, o.borrowed); });
      object.push_back(u32(same - out_.objects.begin()));
      if (same == out_.objects.end()) out_.objects.push_back(std::move(o));
    }
    for (bundle::Program& p : b.programs) {
      p.object = object[p.object];
      auto same = std::find_if(out_.programs.begin(), out_.programs.end(), [&](const bundle::Program& x) {
        return x.object == p.object && x.entry == p.entry && x.params == p.params && x.ints == p.ints && x.label == p.label;
      });
      program.push_back(u32(same - out_.programs.begin()));
      if (same == out_.programs.end()) out_.programs.push_back(std::move(p));
    }
    bundle::Variant& v = b.variants[0];
    for (bundle::Buffer& u : v.buffers)
      if (u.kind == bundle::BufferKind::Weight) u.form = form[u.index][u.form], u.index = constant[u.index];
    renumber(v.body, program);
    if (v.prepare) renumber(*v.prepare, program);
    bound(v, size_t(&part - parts_.data()));
    out_.variants.push_back(std::move(v));
  }

  static void renumber(bundle::Block& b, const std::vector<u32>& program) {
    each_command(b, [&](bundle::Command& c) {
      if (auto* batch = std::get_if<bundle::Batch>(&c))
        for (bundle::Step& s : batch->steps)
          if (auto* l = std::get_if<bundle::Launch>(&s)) l->program = program[l->program];
    });
  }
  template <class F>
  static void each_command(bundle::Block& b, F f) {
    for (bundle::Command& c : b.commands) {
      f(c);
      if (auto* branch = std::get_if<bundle::If>(&c)) {
        for (auto* side : {&branch->then, &branch->otherwise})
          if (*side) each_command(**side, f);
      } else if (auto* loop = std::get_if<bundle::While>(&c)) {
        each_command(*loop->body, f);
      }
    }
  }

  static void renumber(Expr& e, const std::vector<u32>& to) {
    for (size_t i = 0; i < e.code.size(); i++) {
      auto op = tgf::ExprOp(e.code[i]);
      if (op == tgf::ExprOp::Const8) i += 1;
      else if (op == tgf::ExprOp::Const) i += 8;
      else if (op == tgf::ExprOp::Var) {
        u32 v = to[size_t(e.code[i + 1] | e.code[i + 2] << 8)];
        e.code[i + 1] = u8(v), e.code[i + 2] = u8(v >> 8);
        i += 2;
      }
    }
  }
  static void renumber_vars(BundleDesc& b, const std::vector<u32>& to) {
    for (bundle::Signature& s : b.outputs)
      for (bundle::Dim& d : s.dims) {
        renumber(d.size, to);
        if (d.var >= 0) d.var = i32(to[size_t(d.var)]);
      }
    bundle::Variant& v = b.variants[0];
    for (bundle::Buffer& u : v.buffers) {
      renumber(u.bytes, to);
      if (u.image) renumber(u.image->width, to), renumber(u.image->height, to);
    }
    auto command = [&](bundle::Command& c) {
      if (auto* batch = std::get_if<bundle::Batch>(&c)) {
        for (bundle::Step& s : batch->steps) {
          if (auto* l = std::get_if<bundle::Launch>(&s)) {
            for (Expr& e : l->ints) renumber(e, to);
            for (Expr& e : l->grid) renumber(e, to);
            for (auto* e : {&l->flops, &l->bytes})
              if (*e) renumber(**e, to);
          } else if (auto* copy = std::get_if<bundle::Copy>(&s)) {
            renumber(copy->from_offset, to), renumber(copy->to_offset, to), renumber(copy->bytes, to);
          }
        }
      } else if (auto* read = std::get_if<bundle::ReadVar>(&c)) {
        read->var = to[read->var];
        renumber(read->offset, to);
      } else if (auto* set = std::get_if<bundle::SetVar>(&c)) {
        set->var = to[set->var];
        renumber(set->value, to);
      } else if (auto* branch = std::get_if<bundle::If>(&c)) {
        renumber(branch->cond, to);
      } else if (auto* loop = std::get_if<bundle::While>(&c)) {
        renumber(loop->cond, to);
      }
    };
    each_command(v.body, command);
    if (v.prepare) each_command(*v.prepare, command);
  }

  std::vector<Captured>& parts_;
  BundleDesc out_;
  std::vector<std::vector<i64>> values_;  // of each size that differs, by part
  std::vector<u32> var_;                  // which variable it is
  std::map<Digest, u32> constant_;        // -> of the bundle
};

}  // namespace

std::vector<std::vector<InputShape>> variants_of(const std::vector<InputShape>& shapes) {
  std::map<std::string, std::vector<const InputShape*>> given;
  for (const InputShape& s : shapes) given[s.input].push_back(&s);
  size_t n = 1;
  const std::string* most = nullptr;
  for (const auto& [name, list] : given)
    if (list.size() > n) n = list.size(), most = &name;
  for (const auto& [name, list] : given)
    if (list.size() != 1 && list.size() != n)
      fail("--shape ", name, " is given ", list.size(), " times and --shape ", *most, " ", n,
           " times: each makes one variant, so give both as often, or once where all variants have the same");
  std::vector<std::vector<InputShape>> v(n);
  for (const InputShape& s : shapes) {
    const auto& list = given[s.input];
    for (size_t p = 0; p < n; p++)
      if (list.size() == 1 || list[p] == &s) v[p].push_back(s);
  }
  return v;
}

bundle::BundleDesc merge_variants(std::vector<Captured>& parts) {
  TG_CHECK(!parts.empty(), "no variant");
  if (parts.size() == 1) return std::move(parts[0].bundle);
  return Merger(parts).run();
}

}  // namespace tg::driver
