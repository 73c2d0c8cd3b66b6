// tgaot inspect: what is in a bundle, part by part, as text or JSON. No device is opened.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "bundle/bundle.h"
#include "driver/portable.h"
#include "driver/tree.h"
#include "ir/text.h"
#include "verbs.h"

namespace {

using namespace tg;
namespace tb = tg::bundle;

// Bytecode as infix text: "(seq*64)".
std::string text(const tb::Expr& e, const std::vector<tb::Var>& vars) {
  if (e.is_constant()) return str(e.value);
  static const char* const kInfix[] = {"",  "",   "",   "",   "+", "-", "*", "//", "%",  " min ", " max ",
                                       "<", "<=", "==", "!=", "&", "|", "^", "<<", ">>", "?"};
  std::vector<std::string> stack;
  auto pop = [&] {
    std::string s = stack.back();
    stack.pop_back();
    return s;
  };
  auto little = [](const u8* p, int bytes) {
    u64 v = 0;
    for (int i = bytes - 1; i >= 0; --i) v = v << 8 | p[i];
    return v;
  };
  // read_bundle has checked that the code is well formed.
  for (size_t i = 0; i < e.code.size();) {
    tgf::ExprOp op = tgf::ExprOp(e.code[i++]);
    switch (op) {
      case tgf::ExprOp::Const8: stack.push_back(str(i8(e.code[i]))), i += 1; break;
      case tgf::ExprOp::Const: stack.push_back(str(i64(little(&e.code[i], 8)))), i += 8; break;
      case tgf::ExprOp::Var: stack.push_back(vars[little(&e.code[i], 2)].name), i += 2; break;
      case tgf::ExprOp::Select: {
        std::string b = pop(), a = pop(), c = pop();
        stack.push_back(str("(", c, "?", a, ":", b, ")"));
        break;
      }
      default: {
        std::string b = pop(), a = pop();
        stack.push_back(str("(", a, kInfix[int(op)], b, ")"));
      }
    }
  }
  return stack.back();
}

Tree signatures(const std::vector<tb::Signature>& all, const std::vector<tb::Var>& vars) {
  Tree list = Tree::list();
  for (const tb::Signature& s : all) {
    Tree dims = Tree::list();
    for (const tb::Dim& d : s.dims) {
      if (d.name.empty() && d.size.is_constant())
        dims.add(d.size.value);
      else
        dims.add(d.name.empty() ? text(d.size, vars) : d.name);
    }
    list.add(Tree::map().add("name", s.name).add("dtype", tgf::row(s.dtype).text).add("dims", std::move(dims)));
  }
  return list;
}

Tree targets(const tb::BundleDesc& d) {
  Tree list = Tree::list();
  for (const tb::Target& t : d.targets) list.add(str(t.device, ":", t.renderer, ":", t.arch));
  return list;
}

constexpr const char* kProgramKind[] = {"elf",          "opencl source", "opencl binary", "cubin", "ptx",        "hsaco",
                                        "metal source", "metal library", "wgsl",          "ir3",   "hexagon elf"};
constexpr const char* kSuffix[] = {".o", ".cl", ".clbin", ".cubin", ".ptx", ".hsaco", ".metal", ".metallib", ".wgsl", ".ir3", ".o"};
constexpr const char* kBufferKind[] = {"input", "output", "weight", "state", "scratch"};

i64 launches(const tb::Block* b) {
  i64 n = 0;
  if (!b) return n;
  for (const tb::Command& c : b->commands) {
    if (auto* x = std::get_if<tb::Batch>(&c)) {
      for (const tb::Step& s : x->steps) n += std::holds_alternative<tb::Launch>(s);
    } else if (auto* x = std::get_if<tb::If>(&c)) {
      n += launches(x->then.get()) + launches(x->otherwise.get());
    } else if (auto* x = std::get_if<tb::While>(&c)) {
      n += launches(x->body.get());
    }
  }
  return n;
}

Tree commands(const tb::Block& b, const tb::BundleDesc& d) {
  Tree list = Tree::list();
  auto expr = [&](const tb::Expr& e) { return text(e, d.vars); };
  for (const tb::Command& c : b.commands) {
    if (auto* x = std::get_if<tb::Batch>(&c)) {
      Tree steps = Tree::list();
      for (const tb::Step& s : x->steps) {
        if (auto* l = std::get_if<tb::Launch>(&s)) {
          const tb::Program& p = d.programs[l->program];
          Tree m = Tree::map();
          m.add("launch", p.label.empty() ? p.entry : p.label).add("buffers", join(l->args, " ")).add("grid", join(l->grid, " ", expr));
          if (!l->ints.empty()) m.add("ints", join(l->ints, " ", expr));
          if (l->flops) m.add("flops", expr(*l->flops));
          if (l->bytes) m.add("bytes", expr(*l->bytes));
          steps.add(std::move(m));
        } else {
          const tb::Copy& k = std::get<tb::Copy>(s);
          steps.add(Tree::map()
                        .add("copy", expr(k.bytes))
                        .add("from", str(k.from, "+", expr(k.from_offset)))
                        .add("to", str(k.to, "+", expr(k.to_offset))));
        }
      }
      list.add(Tree::map().add(str("batch on device ", x->device), std::move(steps)));
    } else if (auto* x = std::get_if<tb::ReadVar>(&c)) {
      list.add(Tree::map().add("read variable", d.vars[x->var].name).add("from", str(x->buffer, "+", expr(x->offset))));
    } else if (auto* x = std::get_if<tb::SetVar>(&c)) {
      list.add(Tree::map().add("set variable", d.vars[x->var].name).add("to", expr(x->value)));
    } else if (auto* x = std::get_if<tb::If>(&c)) {
      Tree m = Tree::map();
      m.add("if", expr(x->cond));
      if (x->then) m.add("then", commands(*x->then, d));
      if (x->otherwise) m.add("else", commands(*x->otherwise, d));
      list.add(std::move(m));
    } else {
      const tb::While& w = std::get<tb::While>(c);
      Tree m = Tree::map();
      m.add("while", expr(w.cond)).add("most", w.most);
      if (w.body) m.add("do", commands(*w.body, d));
      list.add(std::move(m));
    }
  }
  return list;
}

Tree summary(const tb::Loaded& l, u64 file_bytes) {
  const tb::BundleDesc& d = l.desc;
  u64 weights = 0, code = 0;
  for (const tb::Constant& c : d.constants)
    for (const tb::Form& f : c.forms) weights += f.derived ? 0 : f.bytes.size;
  for (const tb::Bytes& b : d.objects) code += b.size;
  Tree t = Tree::map();
  t.add("made by", d.provenance.made_by).add("model", d.provenance.model).add("model digest", d.provenance.model_digest);
  if (!d.provenance.licence.empty()) t.add("licence", d.provenance.licence);
  t.add("file bytes", file_bytes).add("weight bytes", weights).add("code bytes", code);
  t.add("min runtime", l.min_runtime).add("features", l.features);
  t.add("targets", targets(d)).add("inputs", signatures(d.inputs, d.vars)).add("outputs", signatures(d.outputs, d.vars));
  Tree vars = Tree::list();
  for (const tb::Var& v : d.vars) vars.add(Tree::map().add("name", v.name).add("min", v.min).add("max", v.max).add("multiple", v.multiple));
  if (!d.vars.empty()) t.add("variables", std::move(vars));
  Tree states = Tree::list();
  for (const tb::State& s : d.states) states.add(Tree::map().add("input", s.input).add("output", s.output).add("bytes", s.bytes));
  if (!d.states.empty()) t.add("state", std::move(states));
  Tree variants = Tree::list();
  for (const tb::Variant& v : d.variants) {
    Tree m = Tree::map();
    m.add("targets", join(v.targets, " ")).add("kernels", launches(&v.body)).add("buffers", v.buffers.size());
    m.add("arena bytes", tb::plan_arena(v, d.vars, 0).bytes);
    for (const tb::Bound& b : v.bounds) m.add(d.vars[b.var].name, str(b.min, "..", b.max));
    if (!v.note.empty()) m.add("note", v.note);
    variants.add(std::move(m));
  }
  t.add("variants", std::move(variants));
  t.add("portable", d.portable ? str(d.portable->graph.size(), " bytes of graph: can be retuned") : "no: stripped, cannot be retuned");
  return t;
}

Tree weights(const tb::BundleDesc& d) {
  Tree list = Tree::list();
  for (const tb::Constant& c : d.constants) {
    Tree m = Tree::map();
    m.add("name", c.name).add("dtype", tgf::row(c.dtype).text).add("dims", join(c.dims, "x"));
    for (const tb::Form& f : c.forms)
      m.add(str("form ", tgf::row(f.dtype).text),
            str(f.layout.empty() ? "row-major" : f.layout, f.derived ? ", derived, " : ", ", f.bytes.size, " bytes"));
    list.add(std::move(m));
  }
  return Tree::map().add("weights", std::move(list));
}

Tree programs(const tb::BundleDesc& d) {
  Tree list = Tree::list();
  for (const tb::Program& p : d.programs) {
    list.add(Tree::map()
                 .add("name", p.label)
                 .add("entry", p.entry)
                 .add("kind", kProgramKind[int(p.kind)])
                 .add("object", p.object)
                 .add("object_bytes", d.objects[p.object].size)
                 .add("params",
                      join(p.params, "", [](tb::Access a) { return a == tb::Access::Read    ? "r"
                                                                   : a == tb::Access::Write ? "w"
                                                                                            : "x"; }))
                 .add("ints", p.ints));
  }
  return Tree::map().add("programs", std::move(list));
}

Tree memory(const tb::BundleDesc& d) {
  Tree variants = Tree::list();
  for (const tb::Variant& v : d.variants) {
    tb::Arena arena = tb::plan_arena(v, d.vars, 0);
    Tree list = Tree::list();
    for (size_t i = 0; i < v.buffers.size(); ++i) {
      const tb::Buffer& b = v.buffers[i];
      Tree m = Tree::map();
      m.add("buffer", i).add("kind", kBufferKind[int(b.kind)]).add("dtype", tgf::row(b.dtype).text).add("bytes", text(b.bytes, d.vars));
      if (b.kind == tb::BufferKind::Weight) m.add("constant", d.constants[b.index].name);
      if (arena.offsets[i] >= 0) m.add("offset", arena.offsets[i]);
      if (!b.lies_on.empty()) m.add("lies_on", join(b.lies_on, " "));
      list.add(std::move(m));
    }
    variants.add(Tree::map().add("arena bytes", arena.bytes).add("buffers", std::move(list)));
  }
  return Tree::map().add("variants", std::move(variants));
}

Tree all_commands(const tb::BundleDesc& d) {
  Tree variants = Tree::list();
  for (const tb::Variant& v : d.variants) {
    Tree m = Tree::map();
    if (v.prepare) m.add("prepare", commands(*v.prepare, d));
    m.add("run", commands(v.body, d));
    variants.add(std::move(m));
  }
  return Tree::map().add("variants", std::move(variants));
}

Tree settings(const tb::BundleDesc& d) {
  Tree m = Tree::map();
  for (const tb::KeyValue& kv : d.provenance.settings) m.add(kv.key, kv.value);
  return m;
}

Tree lines(std::string_view text) {
  Tree list = Tree::list();
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    list.add(text.substr(at, end - at));
  }
  return list;
}

// The tensor graph as ir/text.h prints it, one a variant.
std::string graph_text(const tb::Loaded& l, const std::string& file) {
  std::string text;
  for (const Graph& g : driver::read_graphs(l, file)) {
    Arena::Scope scope(*g.arena);
    text += text.empty() ? print(g.sink) : "\n" + print(g.sink);
  }
  return text;
}

struct TargetKernels {
  std::string target;
  std::vector<driver::ShapedKernel> kernels;
};
// The kernels as they were shaped, a target after the other.
std::vector<TargetKernels> shaped_kernels(const tb::BundleDesc& d, const std::string& file) {
  if (!d.portable) fail(file, ": was compiled with --strip: the kernels' shapes are not in it");
  std::vector<TargetKernels> all;
  for (const tb::TargetKernels& t : d.portable->kernels) {
    if (t.target >= d.targets.size()) fail(file, ": is damaged: kernels of target ", t.target, " of ", d.targets.size());
    const tb::Target& target = d.targets[t.target];
    all.push_back({str(target.device, ":", target.renderer, ":", target.arch), driver::read_kernels(t.bytes)});
  }
  return all;
}

std::string slot_text(const driver::ShapedKernel& k, size_t s) {
  return str(k.dims[s].empty() ? "scalar" : k.dims[s], k.layouts[s].empty() ? "" : str(" as ", k.layouts[s]));
}

Tree kernels(const std::vector<TargetKernels>& all) {
  Tree t = Tree::map();
  for (const TargetKernels& of : all) {
    Tree list = Tree::list();
    for (const driver::ShapedKernel& k : of.kernels) {
      Tree slots = Tree::list();
      for (size_t s = 0; s < k.dims.size(); s++) slots.add(slot_text(k, s));
      list.add(Tree::map()
                   .add("name", k.name)
                   .add("entry", k.entry)
                   .add("launches", k.launches)
                   .add("tasks", k.tasks)
                   .add("opts", k.opts)
                   .add("slots", std::move(slots))
                   .add("ast", lines(k.ast)));
    }
    t.add(str("kernels of ", of.target), std::move(list));
  }
  return t;
}

std::string kernels_text(const std::vector<TargetKernels>& all) {
  std::string s;
  for (const TargetKernels& of : all) {
    s += str("kernels of ", of.target, "\n");
    for (const driver::ShapedKernel& k : of.kernels) {
      s += str("\n", k.name, "  ", k.entry, "  launches ", k.launches, "  tasks ", k.tasks, "\n  Opts: ", k.opts.empty() ? "none" : k.opts,
               "\n");
      for (size_t i = 0; i < k.dims.size(); i++) s += str("  slot ", i, ": ", slot_text(k, i), "\n");
      s += k.ast;
    }
  }
  return s;
}

std::span<const u8> bytes_of(const tb::Bytes& b) { return b.owned.empty() ? b.borrowed : std::span<const u8>(b.owned); }

void write_objects(const tb::BundleDesc& d, const std::string& folder) {
  std::vector<u8> done(d.objects.size());
  for (const tb::Program& p : d.programs) {
    if (done[p.object]++) continue;
    std::string path = str(folder, "/", p.object, kSuffix[int(p.kind)]);
    write_file(path, bytes_of(d.objects[p.object]));
  }
}

struct Args {
  std::string file, part = "summary", objects;
  bool json = false;
};

void inspect(const Args& a) {
  tb::Loaded l = tb::read_bundle(a.file);
  struct stat st {};
  stat(a.file.c_str(), &st);
  if (!a.objects.empty()) return write_objects(l.desc, a.objects);
  if (!a.json && a.part == "graph") return void(std::fputs(graph_text(l, a.file).c_str(), stdout));
  if (!a.json && a.part == "kernels") return void(std::fputs(kernels_text(shaped_kernels(l.desc, a.file)).c_str(), stdout));
  Tree t = a.part == "weights"    ? weights(l.desc)
           : a.part == "programs" ? programs(l.desc)
           : a.part == "memory"   ? memory(l.desc)
           : a.part == "commands" ? all_commands(l.desc)
           : a.part == "settings" ? settings(l.desc)
           : a.part == "graph"    ? Tree::map().add("graph", lines(graph_text(l, a.file)))
           : a.part == "kernels"  ? kernels(shaped_kernels(l.desc, a.file))
                                  : summary(l, u64(st.st_size));
  std::fputs((a.json ? t.json() : t.text()).c_str(), stdout);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto a = std::make_shared<Args>();
  Verb(app, "inspect", "prints the parts of a bundle")
      .required("bundle", &a->file, "the .tgb file")
      .one_of("--part", &a->part, {"summary", "weights", "programs", "memory", "commands", "settings", "graph", "kernels"})
      .flag("--json", &a->json, "as JSON")
      .option("--objects", &a->objects, "writes the programs' machine code or source into this folder instead")
      .run([a] { inspect(*a); });
}
