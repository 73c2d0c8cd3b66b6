#include "driver/portable.h"

#include <algorithm>

#include "base/error.h"
#include "ir/binary.h"
#include "ir/spec.h"
#include "target/bytes.h"

namespace tg::driver {
namespace {

constexpr i64 kGraphsVersion = 3, kKernelsVersion = 1;

std::span<const u8> bytes_of(const bundle::Bytes& b) { return b.owned.empty() ? b.borrowed : std::span<const u8>(b.owned); }

Value read_value(Reader& r, UOp dims) {
  Value v;
  v.name = r.text();
  Kind k;
  if (!kind_from_name(r.text(), &k) || !dims.is(Op::Stack)) fail(r.what, " is damaged");
  v.dtype = k;
  v.dims.assign(dims.src().begin(), dims.src().end());
  return v;
}

// Inputs, outputs and nodes; the constants are left to the caller.
Graph parse_graph(Reader& r, std::vector<u32>* constant_of) {
  const char* what = r.what;
  Graph g;
  g.arena = std::make_shared<Arena>();
  Arena::Scope scope(*g.arena);
  std::vector<UOp> roots = read_binary(r.blob());
  size_t inputs = r.count(), outputs = r.count();
  if (roots.size() != 1 + inputs + outputs || !roots[0].is(Op::Sink) || roots[0].nsrc() < outputs) fail(what, " is damaged");
  g.sink = roots[0];
  for (size_t i = 0; i < inputs; i++) g.inputs.push_back(read_value(r, roots[1 + i]));
  for (size_t i = 0; i < outputs; i++) g.outputs.push_back(read_value(r, roots[1 + inputs + i]));
  g.state.resize(r.count());
  for (auto& [out, in] : g.state) out = u32(r.num()), in = u32(r.num());
  g.measured.resize(roots[0].nsrc() - outputs);
  for (MeasuredSize& m : g.measured) m.name = r.text(), m.min = r.num(), m.max = r.num(), m.multiple = r.num();
  for (i64 c : r.nums()) constant_of->push_back(u32(c));
  return g;
}

ConstantData read_constant(const bundle::Constant& c, const std::string& where) {
  ConstantData d;
  d.name = c.name, d.dtype = Kind(c.dtype), d.dims = c.dims;
  i64 elems = 1;
  for (i64 n : c.dims)
    if (n < 0 || __builtin_mul_overflow(elems, n, &elems) || elems > i64(1) << 48) fail(where, " has impossible dims");
  const bundle::Form* form = nullptr;
  for (const bundle::Form& f : c.forms)
    if (!f.derived && Kind(f.dtype) == d.dtype.kind && (!form || f.layout.empty())) form = &f;
  if (!form) fail(where, " has no form that its elements can be read from");
  std::span<const u8> bytes = bytes_of(form->bytes);
  if (form->layout.empty()) {
    if (bytes.size() != size_t(byte_size(d.dtype.kind, elems))) fail(where, " has ", bytes.size(), " bytes for ", elems, " elements");
    d.bytes = bytes;
    return d;
  }
  std::optional<Layout> l = parse_layout(form->layout, c.dims);
  i64 stored = 1;
  if (l)
    for (const LayoutPiece& p : l->pieces)
      if (__builtin_mul_overflow(stored, p.factor, &stored)) stored = -1, l.reset();
  int width = bits(d.dtype) / 8;
  if (!l || width == 0 || i64(bytes.size()) / width != stored)
    fail(where, " has the layout ", form->layout, ", which does not fit its ", bytes.size(), " bytes");
  auto plain = std::make_shared<std::vector<u8>>(size_t(elems * width));
  undo_layout(*l, c.dims, width, bytes.data(), plain->data());
  d.bytes = *plain, d.owner = plain;
  return d;
}

// What a model's nodes may refer to must be there: the file may have been made by anybody.
void check_graph(const Graph& g, const char* what) {
  auto damaged = [&](const std::string& why) { fail(what, " is damaged: ", why); };
  if (std::string why = violation(Spec::Tensor, g.sink); !why.empty()) damaged(why);
  for (UOp u : toposort(g.sink)) {
    if (u.is(Op::Param) &&
        (u.arg_int() < 0 || u.arg_int() >= i64(g.inputs.size()) || !same_shape(shape(u), g.inputs[size_t(u.arg_int())].dims)))
      damaged("input");
    if (u.is(Op::Constant) &&
        (u.arg_int() < 0 || u.arg_int() >= i64(g.constants.size()) || u.dtype() != g.constants[size_t(u.arg_int())].dtype ||
         !has_const_shape(u) || const_shape(u) != g.constants[size_t(u.arg_int())].dims))
      damaged("constant");
  }
  for (size_t i = 0; i < g.outputs.size(); i++)
    if (g.sink.src(i).dtype() != g.outputs[i].dtype) damaged("output");
  for (size_t i = 0; i < g.measured.size(); i++) {
    const MeasuredSize& m = g.measured[i];
    UOp value = g.sink.src(g.outputs.size() + i);
    if (value.dtype() != DType(Kind::I64) || rank(value) != 0 || m.min < 0 || m.max < m.min || m.multiple < 1) damaged("measured size");
  }
}

}  // namespace

namespace {

void put_graph(Writer& w, const Graph& g, std::span<const u32> constant_of) {
  Arena::Scope scope(*g.arena);
  std::vector<UOp> roots{g.sink};
  for (auto* values : {&g.inputs, &g.outputs})
    for (const Value& v : *values) roots.push_back(stack(v.dims));
  w.blob(write_binary(roots));
  w.num(i64(g.inputs.size())), w.num(i64(g.outputs.size()));
  for (auto* values : {&g.inputs, &g.outputs})
    for (const Value& v : *values) w.text(v.name), w.text(name(v.dtype.kind));
  w.num(i64(g.state.size()));
  for (auto [out, in] : g.state) w.num(out), w.num(in);
  for (const MeasuredSize& m : g.measured) w.text(m.name), w.num(m.min), w.num(m.max), w.num(m.multiple);
  w.nums(std::vector<i64>(constant_of.begin(), constant_of.end()));
}

}  // namespace

std::vector<u8> write_graphs(std::span<const Graph* const> graphs, std::span<const std::span<const u32>> constant_of) {
  Writer w;
  w.num(kGraphsVersion);
  w.num(i64(graphs.size()));
  for (size_t i = 0; i < graphs.size(); i++) put_graph(w, *graphs[i], constant_of[i]);
  return std::move(w.out);
}

std::vector<Graph> read_graphs(const bundle::Loaded& loaded, const std::string& path) {
  if (!loaded.desc.portable)
    fail(path, ": was compiled with --strip: the graph is not in it, so it cannot be retuned. Compile the model anew");
  std::string what = path + ": the graph";
  Reader r{loaded.desc.portable->graph, what.c_str()};
  if (i64 version = r.num(); version != kGraphsVersion)
    fail(what, " is of version ", version, ", this tgaot reads ", kGraphsVersion, "; use the version that wrote it");
  std::vector<Graph> graphs(r.count());
  if (graphs.empty()) fail(what, " is missing");
  for (Graph& g : graphs) {
    std::vector<u32> constant_of;
    g = parse_graph(r, &constant_of);
    for (u32 c : constant_of) {
      if (c >= loaded.desc.constants.size()) fail(what, " is damaged: constant ", c, " of ", loaded.desc.constants.size());
      g.constants.push_back(read_constant(loaded.desc.constants[c], str(path, ": constant ", loaded.desc.constants[c].name)));
    }
    Arena::Scope scope(*g.arena);
    check_graph(g, what.c_str());
  }
  return graphs;
}

Graph copy_graph(const Graph& g) {
  std::vector<u32> same(g.constants.size()), back;
  for (u32 i = 0; i < same.size(); i++) same[i] = i;
  Writer w;
  put_graph(w, g, same);
  Reader r{w.out, "the graph"};
  Graph copy = parse_graph(r, &back);
  copy.constants = g.constants;
  return copy;
}

std::vector<u8> write_kernels(const KernelPlan& plan, std::span<const CompiledKernel> compiled) {
  std::vector<i64> launches(plan.jobs.size());
  for (const KernelPlan::Use& u : plan.uses) launches[u.job]++;
  Writer w;
  w.num(kKernelsVersion);
  w.num(i64(plan.jobs.size()));
  for (size_t i = 0; i < plan.jobs.size(); i++) {
    const KernelJob& j = plan.jobs[i];
    w.text(plan.names[i]), w.text(j.entry), w.text(compiled[i].opts), w.text(j.ast);
    w.num(compiled[i].tasks), w.num(launches[i]);
    w.num(i64(j.slots.size()));
    for (size_t s = 0; s < j.slots.size(); s++) {
      w.text(join(j.slots[s].dims, "x"));
      w.text(compiled[i].layouts[s].is_row_major(j.slots[s].dims) ? "" : compiled[i].layouts[s].str());
    }
  }
  return std::move(w.out);
}

std::vector<ShapedKernel> read_kernels(std::span<const u8> bytes) {
  Reader r{bytes, "the list of kernels"};
  if (i64 version = r.num(); version != kKernelsVersion)
    fail("the list of kernels is of version ", version, ", this tgaot reads ", kKernelsVersion);
  std::vector<ShapedKernel> v(r.count());
  for (ShapedKernel& k : v) {
    k.name = r.text(), k.entry = r.text(), k.opts = r.text(), k.ast = r.text();
    k.tasks = r.num(), k.launches = r.num();
    size_t slots = r.count();
    for (size_t s = 0; s < slots; s++) k.dims.push_back(r.text()), k.layouts.push_back(r.text());
  }
  return v;
}

}  // namespace tg::driver
