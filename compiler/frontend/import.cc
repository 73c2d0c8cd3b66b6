// Walks the graph in file order and calls the row of each node. A node that fails makes its outputs unknown and is listed; nodes that read
// unknown values are passed over, so that one run tells everything that is wrong.
#include "frontend/import.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/note.h"
#include "base/progress.h"
#include "frontend/default_float.h"
#include "frontend/dequantized.h"
#include "frontend/size_list.h"
#include "frontend/onnx_file.h"
#include "frontend/onnx_op.h"
#include "frontend/packed_bytes.h"
#include "frontend/sequence.h"

namespace tg {

constexpr i64 kOldestOpset = 1, kNewestOpset = 27;
constexpr i64 kMostNodes = 500'000;  // small files can call functions of functions without end

class Importer {
 public:
  Importer(const std::string& path, const ImportOptions& o) : file_(path), opt_(o) {}

  Graph run() {
    g_.arena = std::make_shared<Arena>();
    Arena::Scope arena(*g_.arena);
    Pool::Scope pool(pool_);
    const tgonnx::ModelProto& m = file_.model();
    pool_.default_float = opt_.default_float;
    Opsets opsets = read_opsets(m.opset_import());
    if (opsets.empty() && m.ir_version() < 3) opsets[""] = 1;  // files older than IR 3 name no opset
    for (const tgonnx::FunctionProto& f : m.functions()) functions_[function_key(f.domain(), f.name(), f.overload())] = &f;

    for (auto* list : {&m.graph().value_info(), &m.graph().output()})
      for (const auto& v : *list) declare_shape(v);

    Names top;
    declare_inputs(m.graph(), &top);
    Progress progress("import", m.graph().node_size());
    progress_ = &progress;
    import_graph(m.graph(), &top, opsets);
    if (!problems_.empty()) {
      if (problems_.size() == 1) fail(file_.path(), ": ", problems_[0]);
      constexpr size_t kShown = 50;
      if (problems_.size() > kShown)
        fail(file_.path(), ": ", problems_.size(), " nodes cannot be imported; the first are\n  ", join(std::span(problems_).first(kShown), "\n  "));
      fail(file_.path(), ": ", problems_.size(), " nodes cannot be imported:\n  ", join(problems_, "\n  "));
    }
    for (const ImportOptions::Var& v : opt_.vars)
      if (!used_vars_.count(v.name)) fail("--var ", v.name, ": no input has a free dimension of that name");
    std::vector<UOp> outs;
    for (const tgonnx::ValueInfoProto& v : m.graph().output()) {
      Tensor t = lookup(top, v.name(), str("output \"", v.name(), "\""));
      if (const char* what = not_tensor(t)) fail(file_.path(), ": output \"", v.name(), "\" is ", what, "; only tensors are supported");
      if (is_wide() && t.dtype() == opt_.default_float && !declared_f64(v)) t = t.cast(Kind::F32);
      if (v.has_type() && tensor_or_optional(v.type()).has_tensor_type()) {
        DType d = onnx_dtype(tensor_or_optional(v.type()).tensor_type().elem_type(), str(file_.path(), ": output \"", v.name(), "\""));
        if (d != t.dtype()) fail(file_.path(), ": output \"", v.name(), "\" is declared ", name(d), " but computed as ", name(t.dtype()));
      }
      g_.outputs.push_back({v.name(), t.dtype(), t.shape()});
      outs.push_back(t.uop());
    }
    if (outs.empty()) fail(file_.path(), ": the graph has no outputs");
    for (const Measured& m : measured_) outs.push_back(m.counted);
    g_.sink = drop_roundings(node(Op::Sink, Kind::Void, std::span<const UOp>(outs)), opt_.default_float);
    g_.sink = read_as_bytes(g_.sink, pool_);
    keep_used_constants();
    return std::move(g_);
  }

 private:
  using Opsets = std::map<std::string, i64>;
  // Thrown out of a function's body or a subgraph whose problems are listed.
  struct Problem {};

  // A name stands for a value, for a tensor of the file that nobody has read yet, or for the output of a node that failed.
  struct Slot {
    Tensor value;
    const tgonnx::TensorProto* initializer = nullptr;
    bool failed = false;
  };
  struct Names {
    std::unordered_map<std::string, Slot> slots;
    Names* outer = nullptr;
    Slot* find(const std::string& n) {
      for (Names* s = this; s; s = s->outer)
        if (auto it = s->slots.find(n); it != s->slots.end()) return &it->second;
      return nullptr;
    }
  };

  static std::string domain_of(const std::string& d) { return d == "ai.onnx" ? "" : d; }
  static std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
    return str(domain_of(domain), ":", name, ":", overload);
  }
  void note_user(const std::string& text) { opt_.note ? opt_.note(text) : note_once(text); }

  template <class R>
  Opsets read_opsets(const R& imports) {
    Opsets o;
    for (const auto& i : imports) {
      std::string d = domain_of(i.domain());
      if (d.empty() && (i.version() < kOldestOpset || i.version() > kNewestOpset))
        fail(file_.path(), ": opset ", i.version(), " is not supported; ", kOldestOpset, " to ", kNewestOpset,
             " are. Convert the model with onnx.version_converter");
      o[d] = i.version();
    }
    return o;
  }

  // --- inputs
  // -----------------------------------------------------------------------------------------------------------------------------
  void declare_inputs(const tgonnx::GraphProto& graph, Names* names) {
    std::unordered_set<std::string> constants;
    for (const auto& t : graph.initializer()) constants.insert(t.name());
    std::unordered_set<std::string> known;
    std::map<std::string, UOp> dim_of;  // a free dimension's name: what it became
    for (const ImportOptions::Var& v : opt_.vars) {
      if (v.min < 0 || v.max < v.min || v.multiple < 1) fail("--var ", v.name, ": ", v.min, "..", v.max, ":", v.multiple, " is no range");
      dim_of[v.name] = v.min == v.max ? idx(v.min) : var(v.name, v.min, v.max, v.multiple);
    }
    // Dimensions fixed by --shape fix the same name in other inputs too, whichever comes first.
    for (const auto& v : graph.input()) {
      known.insert(v.name());
      const ImportOptions::Shape* given = shape_for(v.name());
      if (!given || constants.count(v.name())) continue;
      const auto& dims = v.type().tensor_type().shape().dim();
      for (int i = 0; i < dims.size() && i < int(given->dims.size()); i++) {
        std::string name = dim_name(dims[i]);
        if (!given->name(size_t(i)).empty() && !dim_of.count(given->name(size_t(i))))
          fail("--shape ", v.name(), ": dimension ", i, " is called ", given->name(size_t(i)), ", which no --var gives bounds for");
        if (name.empty()) continue;
        UOp d = given_dim(*given, size_t(i), dim_of);
        auto [it, fresh] = dim_of.insert({name, d});
        if (!fresh && it->second != d && !(given->input == "*" && it->second.is(Op::Var)))
          fail("--shape ", v.name(), ": dimension ", name, " is ", d.str(), " here and ", it->second.str(), " elsewhere");
      }
    }
    for (const ImportOptions::Shape& s : opt_.shapes)
      if (s.input != "*" && !known.count(s.input))
        fail("--shape ", s.input, ": the model has no such input; it has ",
             join(graph.input(), ", ", [](const auto& v) { return v.name(); }));
    for (const ImportOptions::Fixed& f : opt_.fixed)
      if (!known.count(f.input) || constants.count(f.input))
        fail("--fix ", f.input, ": the model has no such input; it has ", join(graph.input(), ", ", [](const auto& v) { return v.name(); }));
    for (const auto& v : graph.input()) {
      if (constants.count(v.name())) continue;  // a default that nobody can override: it is a constant
      std::string what = str("input \"", v.name(), "\"");
      const tgonnx::TypeProto& type = tensor_or_optional(v.type());
      if (!type.has_tensor_type())
        fail(file_.path(), ": ", what, " is ",
             type.has_sequence_type()        ? "a sequence"
             : type.has_map_type()           ? "a map"
             : type.has_optional_type()      ? "an optional"
             : type.has_sparse_tensor_type() ? "a sparse tensor"
                                             : "of unknown type",
             "; only tensors are supported");
      DType d = onnx_dtype(type.tensor_type().elem_type(), str(file_.path(), ": ", what));
      if (const ImportOptions::Fixed* f = fixed_for(v.name())) {
        define(names, v.name(), {fixed_value(*f, d, type.tensor_type())}, what);
        continue;
      }
      tg::Shape s = input_shape(v, what, &dim_of, &used_vars_);
      check_size(s, str(file_.path(), ": ", what));
      UOp p = tensor::param(i64(g_.inputs.size()), d, s);
      g_.inputs.push_back({v.name(), d, s});
      define(names, v.name(), {kept_in(Tensor(p), opt_.default_float)}, what);
    }
  }

  // An optional tensor that the model takes or gives is one with a value.
  static const tgonnx::TypeProto& tensor_or_optional(const tgonnx::TypeProto& t) {
    return t.has_optional_type() && t.optional_type().elem_type().has_tensor_type() ? t.optional_type().elem_type() : t;
  }
  static UOp given_dim(const ImportOptions::Shape& s, size_t i, const std::map<std::string, UOp>& dim_of) {
    std::string name = s.name(i);
    return name.empty() ? idx(s.dims[i]) : dim_of.at(name);
  }

  // "" for a free dimension without a name of its own; some exporters write "?" for each.
  template <class D>
  static std::string dim_name(const D& d) {
    const std::string& n = d.dim_param();
    return std::any_of(n.begin(), n.end(), [](u8 c) { return std::isalnum(c); }) ? n : "";
  }

  const ImportOptions::Fixed* fixed_for(const std::string& input) {
    for (const ImportOptions::Fixed& f : opt_.fixed)
      if (f.input == input) return &f;
    return nullptr;
  }
  template <class T>
  Tensor fixed_value(const ImportOptions::Fixed& f, DType declared, const T& type) {
    ConstantData c = f.value(declared);
    if (c.dtype != declared) fail("--fix ", f.input, ": the value is ", name(c.dtype), ", the input ", name(declared));
    const auto& dims = type.shape().dim();
    bool fits = !type.has_shape() || size_t(dims.size()) == c.dims.size();
    for (int i = 0; fits && i < dims.size(); i++) fits = !dims[i].has_dim_value() || dims[i].dim_value() < 0 || dims[i].dim_value() == c.dims[size_t(i)];
    if (!fits)
      fail("--fix ", f.input, ": the value has shape (", join(c.dims), "), the input (",
           join(dims, ", ", [](const auto& d) { return d.has_dim_value() ? str(d.dim_value()) : d.dim_param().empty() ? std::string("?") : d.dim_param(); }), ")");
    if (c.name.empty()) c.name = f.input;
    return pool_.add(std::move(c));
  }

  const ImportOptions::Shape* shape_for(const std::string& input) {
    const ImportOptions::Shape* all = nullptr;
    for (const ImportOptions::Shape& s : opt_.shapes) {
      if (s.input == input) return &s;
      if (s.input == "*") all = &s;
    }
    return all;
  }

  tg::Shape input_shape(const tgonnx::ValueInfoProto& v, const std::string& what, std::map<std::string, UOp>* dim_of,
                        std::unordered_set<std::string>* used_vars) {
    const auto& type = tensor_or_optional(v.type()).tensor_type();
    const auto& dims = type.shape().dim();
    const ImportOptions::Shape* given = shape_for(v.name());
    auto at = [&](int i) {
      if (std::string var = given->name(size_t(i)); !var.empty()) used_vars->insert(var);
      return given_dim(*given, size_t(i), *dim_of);
    };
    auto free_dim = [](const auto& d) { return !d.has_dim_value() || d.dim_value() < 0; };
    if (given && given->input == "*" && type.has_shape() && std::none_of(dims.begin(), dims.end(), free_dim)) given = nullptr;
    if (!type.has_shape()) {
      if (!given) fail(file_.path(), ": ", what, " has no declared shape; give one with --shape ", v.name(), "=...");
      tg::Shape s;
      for (int i = 0; i < int(given->dims.size()); i++) s.push_back(at(i));
      return s;
    }
    if (given && int(given->dims.size()) != dims.size())
      fail("--shape ", v.name(), ": ", given->dims.size(), " dimensions for an input with ", dims.size());
    tg::Shape s;
    for (int i = 0; i < dims.size(); i++) {
      if (!free_dim(dims[i])) {
        if (given && at(i) != idx(dims[i].dim_value()))
          fail("--shape ", v.name(), ": dimension ", i, " is ", dims[i].dim_value(), " in the model, not ", at(i).str());
        s.push_back(idx(dims[i].dim_value()));
        continue;
      }
      std::string name = dim_name(dims[i]);
      auto named = name.empty() ? dim_of->end() : dim_of->find(name);
      if (given && given->input != "*" && (named == dim_of->end() || !named->second.is(Op::Var))) {
        s.push_back(at(i));
      } else if (named != dim_of->end()) {
        used_vars->insert(named->second.is(Op::Var) ? std::string(named->second.arg_str()) : name);
        s.push_back(named->second);
      } else if (given) {
        s.push_back(at(i));
      } else {
        note_user(str("dimension ", name.empty() ? str(i) : name, " of ", what, " was not given, it becomes 1; fix it with --shape ",
                      v.name(), "=..."));
        s.push_back(idx(1));
        if (!name.empty()) (*dim_of)[name] = idx(1);
      }
    }
    return s;
  }

  static void check_size(const tg::Shape& s, const std::string& what) {
    for (UOp d : s)
      if (!d.is_const()) return;
    if (known_elems(s) < 0) fail(what, " has shape ", shape_text(s), ", which is too large");
  }

  // --- graphs and nodes
  // ---------------------------------------------------------------------------------------------------------------------
  void define(Names* names, const std::string& name, Slot s, const std::string& who) {
    if (names->find(name)) fail(file_.path(), ": ", who, " defines \"", name, "\", a name that is already in use");
    names->slots[name] = std::move(s);
  }

  Tensor value_of(Slot* s, const std::string& name) {
    if (!s->value && s->initializer) {
      s->value = pool_.add(file_.tensor(*s->initializer, str(file_.path(), ": initializer \"", name, "\"")));
      s->value = kept_in(s->value, opt_.default_float);
    }
    return s->value;
  }
  Tensor lookup(Names& names, const std::string& name, const std::string& who) {
    Slot* s = names.find(name);
    if (!s) fail(file_.path(), ": ", who, " is made by no node");
    if (s->failed) throw Problem{};
    return value_of(s, name);
  }

  // names: of the graph itself, its inputs already defined.
  void import_graph(const tgonnx::GraphProto& graph, Names* names, const Opsets& opsets) {
    for (const auto& t : graph.initializer()) {
      if (t.name().empty()) fail(file_.path(), ": an initializer without a name");
      define(names, t.name(), {{}, &t}, str("initializer \"", t.name(), "\""));
    }
    for (const auto& t : graph.sparse_initializer())
      fail(file_.path(), ": initializer \"", t.values().name(), "\" is a sparse tensor, which is not supported");
    import_nodes(graph.node(), names, opsets, {});
  }

  using Attributes = std::unordered_map<std::string, const tgonnx::AttributeProto*>;

  template <class R>
  void import_nodes(const R& nodes, Names* names, const Opsets& opsets, const Attributes& given) {
    std::unordered_set<std::string> later;  // for a better message: values made further down
    for (const auto& n : nodes)
      for (const auto& o : n.output()) later.insert(o);
    for (const tgonnx::NodeProto& p : nodes) {
      if (!given.empty() || std::any_of(p.attribute().begin(), p.attribute().end(),
                                        [](const auto& a) { return a.has_ref_attr_name() && !a.ref_attr_name().empty(); })) {
        // A node of a function's body: its attributes may refer to the caller's.
        bodies_.push_back(std::make_unique<tgonnx::NodeProto>(p));
        bind_attributes(bodies_.back().get(), given);
        import_node(*bodies_.back(), names, opsets, later);
      } else {
        import_node(p, names, opsets, later);
      }
      if (depth_ == 0 && progress_) progress_->step(p.op_type());
    }
  }

  void bind_attributes(tgonnx::NodeProto* p, const Attributes& given) {
    for (int i = p->attribute_size(); i-- > 0;) {
      tgonnx::AttributeProto* a = p->mutable_attribute(i);
      if (a->has_g())
        for (auto& n : *a->mutable_g()->mutable_node()) bind_attributes(&n, given);
      if (a->ref_attr_name().empty()) continue;
      std::string own = a->name();
      auto it = given.find(a->ref_attr_name());
      if (it == given.end()) {
        p->mutable_attribute()->DeleteSubrange(i, 1);  // the caller left it out: so is it here
      } else {
        *a = *it->second;
        a->set_name(own);
      }
    }
  }

  void import_node(const tgonnx::NodeProto& p, Names* names, const Opsets& opsets, const std::unordered_set<std::string>& later) {
    if (++nodes_ > kMostNodes) fail(file_.path(), ": more than ", kMostNodes, " nodes, those of functions and subgraphs counted each time they are called");
    std::string domain = domain_of(p.domain());
    auto version = opsets.find(domain);
    i64 opset = version != opsets.end() ? version->second : 1;  // exporters forget to import com.microsoft
    std::vector<Tensor> in;
    bool known = true;
    OnnxNode bare(p, opset, {});
    for (int i = 0; i < p.input_size(); i++) {
      const std::string& name = p.input(i);
      if (name.empty()) {
        in.push_back({});
        continue;
      }
      Slot* s = names->find(name);
      if (!s)
        fail(file_.path(), ": ", bare.where(), " reads \"", name,
             later.count(name) ? "\", which only a later node makes; nodes must be in topological order, without cycles"
                               : "\", which nothing makes");
      if (s->failed) {
        known = false;
        in.push_back({});
        continue;
      }
      in.push_back(value_of(s, name));
    }
    while (!in.empty() && !in.back()) in.pop_back();  // absent inputs at the end
    Tensors out;
    bool ok = false;
    Names* names_before = names_;
    const Opsets* opsets_before = opsets_;
    auto function = functions_.find(function_key(p.domain(), p.op_type(), p.overload()));
    try {
      if (function != functions_.end()) {
        if (known) out = call(*function->second, p, in, bare.where()), ok = true;
      } else {
        std::string why;
        if (version == opsets.end() && domain.empty()) bare.fail("the model imports no opset of ai.onnx");
        const OnnxOp* row = find_op(domain, p.op_type(), opset, &why);
        if (!row) bare.fail(why);
        if (known) {
          if (is_wide() && is_quantized(p.op_type()))
            for (Tensor& t : in)
              if (t && t.dtype() == opt_.default_float) t = t.cast(Kind::F32);
          if (is_wide() && p.op_type() == "Cast" && wide_cast(p)) out = {in[0].cast(opt_.default_float)}, ok = true;
          OnnxNode n(p, opset, std::move(in));
          n.ctx_ = this, n.subgraph_ = &subgraph, n.tensor_ = &tensor, n.declared_ = &declared_shape, n.note_ = &note_of, n.measure_ = &measure;
          n.require_ = &require, n.sides_ = &sides_, n.allowed_ = &allowed;
          n.count_ = [](void* ctx) { return static_cast<Importer*>(ctx)->measured_.size(); };
          n.forget_ = [](void* ctx, size_t from) { static_cast<Importer*>(ctx)->drop_measured(from); };
          names_ = names, opsets_ = &opsets;
          if (!ok) out = row->fn(n);
          ok = true;
          for (int i = 0; i < p.output_size(); i++) {
            if (p.output(i).empty()) continue;
            if (i >= int(out.size()) || !out[i]) bare.fail("output ", i, " is not supported");
            if (!not_tensor(out[i])) check_size(out[i].shape(), str(bare.where(), ": output ", i));
          }
        }
      }
    } catch (const Problem&) {
      ok = false;  // already listed, inside a function or subgraph
    } catch (const Error& e) {
      ok = false;
      std::string what = e.what();
      problems_.push_back(what.starts_with(bare.where()) ? what : str(bare.where(), ": ", what));
    } catch (const std::exception& e) {  // tables of a size that no memory holds
      ok = false;
      problems_.push_back(str(bare.where(), ": sizes are too large (", e.what(), ")"));
    }
    names_ = names_before, opsets_ = opsets_before;
    for (int i = 0; i < p.output_size(); i++) {
      if (p.output(i).empty()) continue;
      Slot s;
      s.failed = !ok;
      if (ok && not_tensor(out[i])) {
        s.value = out[i];
        define(names, p.output(i), s, bare.where());
        continue;
      }
      if (ok) s.value = is_quantized(p.op_type()) && !is_wide() ? out[i] : kept_in(out[i], opt_.default_float);
      // Weights stay bytes and a scale, for products to see.
      bool weights = ok && s.value.rank() >= 2 && dequantized(s.value);
      if (ok && !weights) s.value = pool_.fold(s.value.uop());
      if (ok && !(opt_.vars.empty() && g_.measured.empty())) s.value = sizes_in_short(s.value);
      define(names, p.output(i), s, bare.where());
    }
  }

  // Arithmetic on sizes: what it comes to.
  static Tensor sizes_in_short(const Tensor& t) {
    if (!is_int(t.dtype()) && t.dtype().kind != Kind::Bool) return t;
    if (t.uop().in(Op::Const | Op::Constant) || splat(t.uop())) return t;
    const std::vector<UOp>* v = size_list(t.uop());
    return v ? Tensor(of_elements(t.dtype(), const_shape(t.uop()), *v)) : t;
  }

  // --- DEFAULT_FLOAT
  // A dtype wider than f32 goes through the operators; a narrower one is what their results are rounded to.
  bool is_wide() const { return bits(opt_.default_float) > 32; }
  static bool declared_f64(const tgonnx::ValueInfoProto& v) {
    return v.has_type() && v.type().has_tensor_type() && v.type().tensor_type().elem_type() == 11;
  }
  static bool is_quantized(const std::string& op) {
    for (const char* part : {"Quant", "QLinear", "Integer", "QGemm", "QAttention"})
      if (op.find(part) != op.npos) return true;
    return false;
  }
  // A Cast to float32 keeps what the wider dtype holds.
  static bool wide_cast(const tgonnx::NodeProto& p) {
    for (const auto& a : p.attribute())
      if (a.name() == "to") return a.i() == 1;
    return false;
  }

  struct Deeper {
    explicit Deeper(Importer* i) : i_(i) {
      if (++i_->depth_ > kMaxGraphDepth) {
        i_->depth_--;
        fail("graphs and functions are nested more than ", kMaxGraphDepth, " deep");
      }
    }
    ~Deeper() { i_->depth_--; }
    Importer* i_;
  };

  Tensors call(const tgonnx::FunctionProto& f, const tgonnx::NodeProto& p, const std::vector<Tensor>& in, const std::string& where) {
    Deeper deeper(this);
    if (int(in.size()) > f.input_size()) fail(where, ": ", in.size(), " inputs for a function with ", f.input_size());
    Names names;
    for (int i = 0; i < f.input_size(); i++)
      if (i < int(in.size()) && in[i]) names.slots[f.input(i)].value = in[i];
    Attributes given;
    for (const auto& a : f.attribute_proto()) given[a.name()] = &a;  // defaults
    for (const auto& a : p.attribute()) given[a.name()] = &a;
    Opsets opsets = read_opsets(f.opset_import());
    size_t before = problems_.size();
    // An absent optional input reads as "" inside: bodies are rewritten only where that happens.
    tgonnx::FunctionProto copy;
    const auto* nodes = &f.node();
    if (int(names.slots.size()) < f.input_size()) {
      copy = f;
      for (auto& n : *copy.mutable_node())
        for (auto& i : *n.mutable_input())
          for (const auto& name : f.input())
            if (i == name && !names.slots.count(name)) i.clear();
      copies_.push_back(std::make_unique<tgonnx::FunctionProto>(std::move(copy)));
      nodes = &copies_.back()->node();
    }
    import_nodes(*nodes, &names, opsets, given);
    if (problems_.size() != before) throw Problem{};
    Tensors out;
    for (const std::string& o : f.output()) out.push_back(lookup(names, o, str(where, ": the function's output \"", o, "\"")));
    return out;
  }

  static std::optional<Tensors> subgraph(void* ctx, const tgonnx::GraphProto& g, std::span<const Tensor> inputs, std::string* why) {
    Importer* self = static_cast<Importer*>(ctx);
    Deeper deeper(self);
    Names names;
    names.outer = self->names_;
    if (size_t(g.input_size()) != inputs.size()) fail("a subgraph has ", g.input_size(), " inputs, expected ", inputs.size());
    for (size_t i = 0; i < inputs.size(); i++)
      self->define(&names, g.input(int(i)).name(), {inputs[i]}, str("input \"", g.input(int(i)).name(), "\" of a subgraph"));
    size_t before = self->problems_.size(), measured = self->measured_.size();
    self->import_graph(g, &names, *self->opsets_);
    if (self->problems_.size() != before) {
      if (!why) throw Problem{};
      *why = join(std::span(self->problems_).subspan(before), "; ");
      self->drop_measured(measured);
      self->problems_.resize(before);
      return {};
    }
    Tensors out;
    for (const auto& v : g.output()) out.push_back(self->lookup(names, v.name(), str("output \"", v.name(), "\" of a subgraph")));
    return out;
  }
  static Tensor tensor(void* ctx, const tgonnx::TensorProto& t) {
    Importer* self = static_cast<Importer*>(ctx);
    return self->pool_.add(self->file_.tensor(t, "its tensor"));
  }

  // The VAR is called as the model calls the dimension, or after the value whose size it is. One count is one size.
  static UOp measure(void* ctx, const std::string& value, i64 axis, UOp count, std::optional<i64> most) {
    Importer* self = static_cast<Importer*>(ctx);
    for (size_t i = 0; i < self->measured_.size(); i++)
      if (self->measured_[i].value == count && (!self->measured_[i].taken || self->measured_[i].taken == self->taken())) return self->g_.measured[i].min == self->g_.measured[i].max ? idx(self->g_.measured[i].min) : self->g_.measured[i].var();
    std::string name = self->size_name(value, axis);
    for (const MeasuredSize& m : self->g_.measured)
      if (m.name == name) name = str(name, ".", self->g_.measured.size());
    MeasuredSize m{name, 0, most.value_or(-1), 1};
    if (const ImportOptions::Var* v = self->size_var(name)) {
      if (!self->used_vars_.insert(name).second) fail("the size ", name, " is known only at run time, and an input has a dimension of that name");
      m = {name, v->min, most ? std::min(*most, v->max) : v->max, v->multiple};
    }
    if (m.max < 0) fail("the size ", name, " depends on the model's inputs: it must be known at compile time (--fix INPUT=FILE makes one a constant), or bounded: --var ", name, "=0..MAX");
    self->add_measured(m, count);
    return m.var();
  }
  // A value that has to be this one: bounds that leave nothing else.
  static void require(void* ctx, const std::string& what, UOp value, i64 wanted) {
    Importer* self = static_cast<Importer*>(ctx);
    for (size_t i = 0; i < self->measured_.size(); i++)
      if (self->measured_[i].value == value && !self->measured_[i].taken && self->g_.measured[i].min == wanted && self->g_.measured[i].max == wanted) return;
    MeasuredSize m{what, wanted, wanted, 1};
    for (const MeasuredSize& x : self->g_.measured)
      if (x.name == m.name) m.name = str(what, " (", self->g_.measured.size(), ")");
    self->add_measured(m, value);
  }
  // What is measured in a side of a branch counts if that side is taken.
  void add_measured(const MeasuredSize& m, UOp value) {
    UOp counted = taken() ? tg::where(taken(), value, konst(Kind::I64, m.min)) : value;
    std::set<i64> read, closed;  // loops whose rounds it sees, and those that it holds whole
    for (UOp u : toposort(counted)) {
      if (u.is(Op::Carry)) read.insert(u.arg<CarryArg>().loop);
      if (u.is(Op::Step)) read.insert(u.arg_int());
      if (u.is(Op::Loop)) closed.insert(u.arg<LoopArg>().id);
    }
    if (!std::ranges::includes(closed, read)) fail("a size that depends on the values of a loop's round is not supported");
    g_.measured.push_back(m);
    measured_.push_back({value, taken(), counted});
  }
  // Null outside of sides.
  UOp taken() {
    UOp all;
    for (UOp c : sides_) all = all ? alu(Op::And, {all, c}) : c;
    return all;
  }
  // Of a body that is not built after all nothing is measured.
  void drop_measured(size_t from) {
    for (size_t i = from; i < g_.measured.size(); i++) used_vars_.erase(g_.measured[i].name);
    g_.measured.resize(from), measured_.resize(from);
  }
  std::string size_name(const std::string& value, i64 axis) {
    auto named = declared_names_.find(value);
    if (!depth_ && named != declared_names_.end() && size_t(axis) < named->second.size() && !named->second[size_t(axis)].empty()) return named->second[size_t(axis)];
    return str(value, depth_ ? str(".", g_.measured.size()) : "", axis ? str(".", axis) : "", ".size");
  }
  const ImportOptions::Var* size_var(const std::string& name) {
    for (const ImportOptions::Var& v : opt_.vars)
      if (v.name == name) return &v;
    return nullptr;
  }
  static std::optional<i64> allowed(void* ctx, const std::string& value, i64 axis) {
    Importer* self = static_cast<Importer*>(ctx);
    const ImportOptions::Var* v = self->size_var(self->size_name(value, axis));
    return v ? std::optional(v->max) : std::nullopt;
  }
  static std::optional<Ints> declared_shape(void* ctx, const std::string& value) {
    Importer* self = static_cast<Importer*>(ctx);
    auto it = self->declared_.find(value);
    if (self->depth_ || it == self->declared_.end()) return {};  // names of the main graph only
    for (size_t a = 0; a < it->second.size(); a++)
      if (self->size_var(self->size_name(value, i64(a)))) return {};  // the user frees it
    return it->second;
  }
  static void note_of(void* ctx, const std::string& text) { static_cast<Importer*>(ctx)->note_user(text); }
  void declare_shape(const tgonnx::ValueInfoProto& v) {
    const auto& t = v.type().tensor_type();
    if (!v.type().has_tensor_type() || !t.has_shape()) return;
    std::vector<std::string>& names = declared_names_[v.name()];
    for (const auto& e : t.shape().dim()) names.push_back(dim_name(e));
    Ints d;
    for (const auto& e : t.shape().dim()) {
      if (!e.has_dim_value() || e.dim_value() < 0) return;
      d.push_back(e.dim_value());
    }
    declared_[v.name()] = d;
  }

  // Constants that only folded arithmetic has read are dropped; the rest are numbered in the order in which the graph meets them.
  void keep_used_constants() {
    std::vector<std::pair<UOp, UOp>> map;
    std::vector<UOp> used;
    for (UOp u : toposort(g_.sink))
      if (u.is(Op::Constant)) used.push_back(u);
    for (UOp u : used) {
      const ConstantData& c = pool_.constants()[u.arg_int()];
      map.push_back({u, tensor::constant(i64(g_.constants.size()), c.dtype, shape(u))});
      g_.constants.push_back(c);
    }
    g_.sink = substitute(g_.sink, map);
  }

  OnnxFile file_;
  const ImportOptions& opt_;
  Graph g_;
  Pool pool_;
  std::unordered_map<std::string, const tgonnx::FunctionProto*> functions_;
  std::unordered_map<std::string, Ints> declared_;  // shapes that the model declares for values, all sizes fixed
  std::unordered_map<std::string, std::vector<std::string>> declared_names_;  // of values' dimensions, "" where there is none
  std::unordered_set<std::string> used_vars_;                                 // of --var
  struct Measured {
    UOp value, taken, counted;  // as asked for; in sides where this is true; both in one
  };
  std::vector<Measured> measured_;                                            // by g_.measured
  std::vector<UOp> sides_;                                                    // the conditions of branches that only the run knows, around the node being built
  std::vector<std::string> problems_;
  std::vector<std::unique_ptr<tgonnx::NodeProto>> bodies_;  // nodes of functions, attributes bound
  std::vector<std::unique_ptr<tgonnx::FunctionProto>> copies_;
  Names* names_ = nullptr;  // of the node being built, for its subgraphs
  const Opsets* opsets_ = nullptr;
  int depth_ = 0;
  i64 nodes_ = 0;
  Progress* progress_ = nullptr;
};

Graph import_onnx(const std::string& path, const ImportOptions& options) { return Importer(path, options).run(); }

}  // namespace tg
