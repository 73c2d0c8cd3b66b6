#include "frontend/onnx_op.h"

#include <algorithm>

#include "base/error.h"
#include "formats/onnx.pb.h"
#include "frontend/size_list.h"
#include "frontend/sequence.h"

namespace tg {

std::vector<OpRow> op_table() {
  std::vector<OpRow> rows;
  for (const OnnxFamily& f : onnx_families())
    for (const OnnxOp& o : f.ops) rows.push_back({f.domain, o.name, f.name, o.since, o.fn.refused()});
  std::ranges::sort(
      rows, [](const OpRow& a, const OpRow& b) { return std::tie(a.domain, a.name, a.since) < std::tie(b.domain, b.name, b.since); });
  return rows;
}

const OnnxOp* find_op(std::string_view domain, std::string_view name, i64 opset, std::string* why) {
  static const auto* index = [] {
    auto* m = new std::unordered_map<std::string, std::vector<const OnnxOp*>>;
    for (const OnnxFamily& f : onnx_families())
      for (const OnnxOp& o : f.ops) (*m)[str(f.domain, ":", o.name)].push_back(&o);
    return m;
  }();
  auto it = index->find(str(domain, ":", name));
  if (it == index->end()) {
    *why = "the op is not supported";
    return nullptr;
  }
  const OnnxOp* best = nullptr;
  int first = it->second[0]->since;
  for (const OnnxOp* o : it->second) {
    first = std::min(first, o->since);
    if (o->since <= opset && (!best || o->since > best->since)) best = o;
  }
  if (!best)
    *why = str("the op is supported from opset ", first);
  else if (best->fn.refused())
    *why = best->fn.refused(), best = nullptr;
  return best;
}

DType onnx_dtype(i64 n, std::string_view what) {
  for (u32 k = 0; k < tgf::kDtypes; k++)
    if (tgf::row(tgf::Dtype(k)).onnx == n) return Kind(k);
  fail(what, n == 8               ? str(" holds strings, which are not supported")
             : n == 14 || n == 15 ? str(" is complex, which is not supported")
                                  : str(" has the unknown dtype number ", n));
}

OnnxNode::OnnxNode(const tgonnx::NodeProto& p, i64 opset, std::vector<Tensor> inputs) : p_(p), opset_(opset), in_(std::move(inputs)) {
  for (const std::string& o : p.output()) wanted_.push_back(!o.empty());
  for (const tgonnx::AttributeProto& a : p.attribute()) attrs_[a.name()] = &a;
}

const std::string& OnnxNode::op() const { return p_.op_type(); }
const std::string& OnnxNode::name() const { return p_.name(); }

// Messages are lines: a name that has ends of lines in it would look like several.
static std::string one_line(std::string s) {
  for (char& c : s)
    if (c == '\n' || c == '\r') c = '?';
  return s;
}

std::string OnnxNode::where() const {
  std::string domain = p_.domain().empty() || p_.domain() == "ai.onnx" ? "" : p_.domain() + "::";
  // A node without a name is known by its first output.
  std::string id = !p_.name().empty() ? str("\"", p_.name(), "\"") : p_.output_size() ? str("of \"", p_.output(0), "\"") : "";
  return one_line(str(domain, p_.op_type(), " node ", id, " (opset ", opset_, ")"));
}

// --- inputs -----------------------------------------------------------------------------------------------------------------------------
Tensor OnnxNode::any(size_t i) const {
  if (!has(i)) fail("input ", i, " is missing");
  return in_[i];
}
Tensor OnnxNode::operator[](size_t i) const {
  Tensor t = any(i);
  if (const char* what = not_tensor(t)) fail("input ", i, " is ", what, " where a tensor is expected");
  return t;
}
bool OnnxNode::is_constant(size_t i) const { return has(i) && !not_tensor(in_[i]) && Pool::current().value(in_[i].uop()); }
bool OnnxNode::has_dims(size_t i) const {
  return has(i) && !not_tensor(in_[i]) && !is_float(in_[i].dtype()) && (is_constant(i) || size_list(in_[i].uop()));
}
const Values& OnnxNode::constant(size_t i) const {
  Tensor x = (*this)[i];
  const Values* v = Pool::current().value(x.uop());
  if (!v) {
    bool input = i < size_t(p_.input_size());
    fail("input ", i, input ? str(" \"", p_.input(int(i)), "\"") : std::string(), " must be known at compile time, of at most ", kFoldElems,
         " elements, but depends on the model's inputs; --fix INPUT=FILE makes one a constant");
  }
  return *v;
}
std::optional<Ints> OnnxNode::declared(size_t k, size_t i) const {
  if (!has(i) || is_constant(i) || has_dims(i) || !declared_ || !wants(k)) return {};
  std::optional<Ints> d = declared_(ctx_, p_.output(int(k)));
  if (d)
    note_(ctx_, str(where(), ": input ", i, " \"", p_.input(int(i)),
                    "\" is known only at run time; the result is taken to have its declared shape (", join(*d), ")"));
  return d;
}
std::optional<Ints> OnnxNode::declared(size_t k) const {
  return declared_ && wants(k) ? declared_(ctx_, p_.output(int(k))) : std::nullopt;
}
UOp OnnxNode::measured(const Tensor& count, std::optional<i64> most, size_t k, i64 axis) const {
  TG_CHECK(measure_, "an OnnxNode without an importer");
  UOp n = count.cast(Kind::I64).reshape(Shape{}).uop();
  if (const std::vector<UOp>* v = size_list(n)) return v->at(0);
  return measure_(ctx_, k < size_t(p_.output_size()) ? p_.output(int(k)) : op(), axis, n, most);
}
std::optional<i64> OnnxNode::most_allowed(size_t k, i64 axis) const {
  TG_CHECK(allowed_, "an OnnxNode without an importer");
  return allowed_(ctx_, k < size_t(p_.output_size()) ? p_.output(int(k)) : op(), axis);
}
void OnnxNode::must_have(const Tensor& sizes, const Ints& declared, size_t k) const {
  TG_CHECK(require_, "an OnnxNode without an importer");
  require(sizes.rank() == 1 && sizes.dim(0).is_const(), "the shape must be a list of fixed length");
  require(sizes.size(0) == i64(declared.size()), "the declared result has rank ", declared.size(), ", not ", sizes.size(0));
  const std::string& out = p_.output(int(k));
  for (size_t a = 0; a < declared.size(); a++) {
    UOp n = Pool::current().fold(sizes.shrink(0, i64(a), 1).cast(Kind::I64).reshape(Shape{}).uop());
    std::string what = str(where(), ": axis ", a, " of \"", out, "\" is declared as ", declared[a]);
    const std::vector<UOp>* known = size_list(n);
    if (known && (*known)[0].is_const()) {
      require((*known)[0].is_const(declared[a]), "axis ", a, " of \"", out, "\" is declared as ", declared[a], ", but is ", (*known)[0].str());
      continue;
    }
    require_(ctx_, str(what, ", and must be that in every run; --var ", out, a ? str(".", a) : "", ".size=MIN..MAX frees it, --fix fixes what decides it"), n,
             declared[a]);
  }
}
void OnnxNode::must_be(const Tensor& condition, bool wanted, const std::string& what) const {
  TG_CHECK(require_, "an OnnxNode without an importer");
  require_(ctx_, str(where(), ": ", what), condition.cast(Kind::I64).reshape(Shape{}).uop(), wanted);
}
Ints OnnxNode::ints(size_t i) const {
  if (has_dims(i) && !is_constant(i)) {
    Ints r;
    for (UOp e : *size_list(in_[i].uop())) {
      if (!e.is_const()) fail("input ", i, " depends on the free size ", e.str(), ", but must be a number; fix that size with --shape");
      r.push_back(e.as_int());
    }
    return r;
  }
  const Values& v = constant(i);
  if (is_float(v.dtype)) fail("input ", i, " must be integers, not ", tg::name(v.dtype));
  return Ints(v.v.begin(), v.v.end());
}
i64 OnnxNode::integer(size_t i) const {
  Ints v = ints(i);
  if (v.size() != 1) fail("input ", i, " must be one number, not ", v.size());
  return v[0];
}
std::vector<f64> OnnxNode::floats(size_t i) const {
  const Values& v = constant(i);
  std::vector<f64> r;
  for (i64 k = 0; k < v.elems(); k++) r.push_back(v.number(k));
  return r;
}
f64 OnnxNode::number(size_t i) const {
  std::vector<f64> v = floats(i);
  if (v.size() != 1) fail("input ", i, " must be one number, not ", v.size());
  return v[0];
}
Shape OnnxNode::dims(size_t i) const {
  if (has_dims(i) && !is_constant(i)) {
    Shape r = *size_list(in_[i].uop());
    for (UOp& e : r)
      if (e.dtype().kind == Kind::Bool) e = tg::where(e, idx(1), idx(0));
    return r;
  }
  Ints v = ints(i);
  return tg::dims(IntSpan(v));
}
UOp OnnxNode::known_dim(size_t i, i64 e) const { return size_at(in_[i].uop(), e); }
UOp OnnxNode::dim(size_t i) const {
  Shape v = dims(i);
  if (v.size() != 1) fail("input ", i, " must be one number, not ", v.size());
  return v[0];
}

// --- attributes -------------------------------------------------------------------------------------------------------------------------
// AttributeProto.type; files older than IR 2 leave it out, and then the field that is set tells.
const tgonnx::AttributeProto* OnnxNode::find(std::string_view name, int type, const char* kind) const {
  auto it = attrs_.find(name);
  if (it == attrs_.end()) return nullptr;
  const tgonnx::AttributeProto& a = *it->second;
  if (a.has_type() && a.type() != type) fail("attribute ", name, " must be ", kind, ", not of type ", a.type());
  return &a;
}
i64 OnnxNode::attr(std::string_view name, i64 def) const {
  const auto* a = find(name, 2, "an integer");
  return a ? a->i() : def;
}
f32 OnnxNode::attr(std::string_view name, f32 def) const {
  const auto* a = find(name, 1, "a float");
  return a ? a->f() : def;
}
std::string OnnxNode::attr(std::string_view name, const char* def) const {
  const auto* a = find(name, 3, "a string");
  return a ? a->s() : std::string(def);
}
Ints OnnxNode::attr(std::string_view name, const Ints& def) const {
  const auto* a = find(name, 7, "a list of integers");
  return a ? Ints(a->ints().begin(), a->ints().end()) : def;
}
std::vector<f32> OnnxNode::attr_floats(std::string_view name) const {
  const auto* a = find(name, 6, "a list of floats");
  return a ? std::vector<f32>(a->floats().begin(), a->floats().end()) : std::vector<f32>{};
}
std::vector<std::string> OnnxNode::attr_strings(std::string_view name) const {
  const auto* a = find(name, 8, "a list of strings");
  return a ? std::vector<std::string>(a->strings().begin(), a->strings().end()) : std::vector<std::string>{};
}
i64 OnnxNode::attr_int(std::string_view name) const {
  if (!has_attr(name)) fail("attribute ", name, " is missing");
  return attr(name, i64(0));
}
Ints OnnxNode::attr_ints(std::string_view name) const {
  if (!has_attr(name)) fail("attribute ", name, " is missing");
  return attr(name, Ints{});
}
std::string OnnxNode::attr_string(std::string_view name) const {
  if (!has_attr(name)) fail("attribute ", name, " is missing");
  return attr(name, "");
}
Tensor OnnxNode::attr_tensor(std::string_view name) const {
  const auto* a = find(name, 4, "a tensor");
  if (!a) fail("attribute ", name, " is missing");
  TG_CHECK(tensor_, "an OnnxNode without an importer");
  return tensor_(ctx_, a->t());
}
const tgonnx::GraphProto& OnnxNode::attr_graph(std::string_view name) const {
  const auto* a = find(name, 5, "a graph");
  if (!a) fail("attribute ", name, " is missing");
  return a->g();
}
DType OnnxNode::attr_dtype(std::string_view name, DType def) const {
  const auto* a = find(name, 2, "a dtype number");
  return a ? onnx_dtype(a->i(), str("attribute ", name)) : def;
}
Tensors OnnxNode::subgraph(const tgonnx::GraphProto& g, std::span<const Tensor> inputs) const {
  TG_CHECK(subgraph_, "an OnnxNode without an importer");
  return *subgraph_(ctx_, g, inputs, nullptr);
}
std::optional<Tensors> OnnxNode::try_subgraph(const tgonnx::GraphProto& g, std::span<const Tensor> inputs, std::string* why) const {
  TG_CHECK(subgraph_, "an OnnxNode without an importer");
  return subgraph_(ctx_, g, inputs, why);
}

Tensor placed_operand(OnnxNode& n) {
  Tensor a = n[0], b = n[1];
  if (!n.attr("broadcast", 0)) {
    n.require(same_shape(a.shape(), b.shape()), "shapes ", shape_text(a.shape()), " and ", shape_text(b.shape()),
              " differ, and broadcast is 0");
    return b;
  }
  if (!n.has_attr("axis")) return b;
  i64 axis = a.axis(n.attr_int("axis")), ones = a.rank() - axis - b.rank();
  n.require(ones >= 0, "axis ", axis, " for shapes ", shape_text(a.shape()), " and ", shape_text(b.shape()));
  Shape s = b.shape();
  s.insert(s.end(), ones, idx(1));
  return b.reshape(s);
}

}  // namespace tg
