// BundleDesc -> file. Segments are written first, since the flatbuffer before them holds their digests; its length does not depend on them,
// so it is built once with zeros to learn the length and once with the truth.
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "bundle/bundle.h"
#include "formats/bundle_generated.h"
#include "formats/header.h"

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

namespace tg::bundle {
namespace {

namespace fb = tgf::fb;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Offsets = std::vector<Offset<T>>;

constexpr u64 round_up(u64 v, u64 to) { return (v + to - 1) / to * to; }

// The bytes of `b`, in `scratch` if they must be made.
std::span<const u8> get(const Bytes& b, std::vector<u8>& scratch) {
  if (b.make) {
    scratch.assign(b.size, 0);
    b.make(scratch);
    return scratch;
  }
  return b.borrowed.data() ? b.borrowed : std::span<const u8>(b.owned);
}

struct SegmentPlan {
  fb::Content content = fb::Content::Programs;
  bool zstd = false;
  std::vector<const Bytes*> parts;
  std::vector<u64> offsets;  // of the parts, in the unpacked segment
  u64 size = 0;
  u64 offset = 0, stored = 0, digest = 0;  // known once written

  void add(const Bytes* b, u64 align) {
    size = round_up(size, align);
    offsets.push_back(size);
    parts.push_back(b);
    size += b->size;
  }
};

// Sends the parts of a segment, with zeros between them, through `sink` in order.
template <class Sink>
void stream(const SegmentPlan& s, Sink sink) {
  static const u8 zeros[tgf::kConstantAlign] = {};
  std::vector<u8> scratch;
  u64 at = 0;
  for (size_t i = 0; i < s.parts.size(); i++) {
    TG_CHECK(s.offsets[i] - at <= sizeof zeros, "gap in a segment");
    sink(std::span<const u8>(zeros, s.offsets[i] - at));
    std::span<const u8> bytes = get(*s.parts[i], scratch);
    TG_CHECK(bytes.size() == s.parts[i]->size, "bytes of a constant changed their size");
    sink(bytes);
    at = s.offsets[i] + bytes.size();
  }
}

class ZstdStream {
 public:
  // bytes: all that will be put; without it small segments would pay for tables of 50 MB.
  explicit ZstdStream(u64 bytes) : c_(ZSTD_createCCtx()) {
    TG_CHECK(c_, "zstd context");
    ZSTD_CCtx_setParameter(c_, ZSTD_c_compressionLevel, 12);
    ZSTD_CCtx_setPledgedSrcSize(c_, bytes);
  }
  ~ZstdStream() { ZSTD_freeCCtx(c_); }
  ZstdStream(const ZstdStream&) = delete;
  template <class Sink>
  void put(std::span<const u8> bytes, bool last, Sink sink) {
    u8 out[1 << 16];
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool done = false; !done;) {
      ZSTD_outBuffer o{out, sizeof out, 0};
      size_t left = ZSTD_compressStream2(c_, &o, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      TG_CHECK(!ZSTD_isError(left), ZSTD_getErrorName(left));
      sink(std::span<const u8>(out, o.pos));
      done = last ? left == 0 : in.pos == in.size;
    }
  }

 private:
  ZSTD_CCtx* c_;
};

class Writer {
 public:
  Writer(const BundleDesc& d, const WriteOptions& o) : d_(d), options_(o) {}
  WriteStats write(const std::string& path);

 private:
  void plan();
  void write_segment(SegmentPlan& s, OutputFile& file);
  std::vector<u8> meta();

  i64 most(const Expr& e) const;
  Offset<fb::Expr> expr(const Expr& e);
  Offset<flatbuffers::Vector<Offset<fb::Expr>>> exprs(const std::vector<Expr>& v);
  Offset<flatbuffers::String> text(const std::string& s) { return s.empty() ? 0 : f_.CreateString(s); }
  Offset<fb::Signature> signature(const Signature& s);
  Offset<fb::Buffer> buffer(const Buffer& b, const std::vector<u32>& place);
  Offset<fb::Block> block(const Block& b, const std::vector<u32>& place);
  Offset<fb::Variant> variant(const Variant& v);
  Offset<void> step(const Step& s, const std::vector<u32>& place);
  Offset<fb::TestTensor> tensor(const TestTensor& t, size_t* part);

  const BundleDesc& d_;
  WriteOptions options_;
  FlatBufferBuilder f_{1 << 16};
  std::vector<SegmentPlan> segments_;
  int programs_ = -1, weights_ = -1, graph_ = -1, tests_ = -1;
  std::vector<int> kernels_;
  std::vector<Bytes> portable_;  // views, so that segments can point at them
  u64 features_ = 0;
  std::vector<i64> upper_;  // of the variables, where the expressions being written are used
};

std::vector<i64> upper_bounds(const std::vector<Var>& vars, const std::vector<Bound>& bounds) {
  std::vector<i64> upper;
  for (const Var& v : vars) upper.push_back(v.max);
  for (const Bound& b : bounds) {
    TG_CHECK(b.var < vars.size(), "bound of variable ", b.var);
    upper[b.var] = b.max;
  }
  return upper;
}

// ---- the plan of segments

void Writer::plan() {
  auto open = [&](fb::Content content, bool zstd) {
    segments_.push_back({content, zstd});
    return int(segments_.size()) - 1;
  };
  if (!d_.objects.empty()) {
    programs_ = open(fb::Content::Programs, false);
    for (const Bytes& b : d_.objects) segments_[programs_].add(&b, tgf::kBufferAlign);
  }
  for (const Constant& c : d_.constants)
    for (const Form& f : c.forms) {
      if (f.derived) continue;
      if (weights_ < 0) weights_ = open(fb::Content::Weights, options_.compress);
      segments_[weights_].add(&f.bytes, tgf::kConstantAlign);
    }
  if (!d_.tests.empty()) {
    tests_ = open(fb::Content::Tests, false);
    for (const TestVector& t : d_.tests)
      for (auto* list : {&t.inputs, &t.outputs})
        for (const TestTensor& x : *list) segments_[tests_].add(&x.bytes, tgf::kConstantAlign);
  }
  if (d_.portable) {
    portable_.push_back(Bytes::view(d_.portable->graph));
    for (const TargetKernels& k : d_.portable->kernels) portable_.push_back(Bytes::view(k.bytes));
    graph_ = open(fb::Content::Graph, true);
    segments_[graph_].add(&portable_[0], 1);
    for (size_t i = 1; i < portable_.size(); i++) {
      kernels_.push_back(open(fb::Content::Kernels, true));
      segments_[kernels_.back()].add(&portable_[i], 1);
    }
  }
  if (weights_ >= 0 && options_.compress) features_ |= tgf::kCompressedWeights;
  for (const Variant& v : d_.variants) {
    if (v.prepare) features_ |= tgf::kDerivedForms;
    auto control = [&](const Block& b) {
      for (const Command& c : b.commands)
        if (!std::holds_alternative<Batch>(c)) features_ |= tgf::kControlFlow;
    };
    control(v.body);
    if (v.prepare) control(*v.prepare);
    for (const Buffer& b : v.buffers)
      if (b.image) features_ |= tgf::kImages;
  }
  for (const Program& p : d_.programs)
    if (p.kind == ProgramKind::OpenCLSource || p.kind == ProgramKind::MetalSource || p.kind == ProgramKind::Wgsl)
      features_ |= tgf::kSourcePrograms;
}

void Writer::write_segment(SegmentPlan& s, OutputFile& file) {
  file.pad_to(tgf::kSegmentAlign);
  s.offset = file.offset();
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  auto out = [&](std::span<const u8> bytes) {
    if (bytes.empty()) return;
    file.write(bytes);
    XXH64_update(&state, bytes.data(), bytes.size());
  };
  if (s.zstd) {
    ZstdStream z(s.size);
    stream(s, [&](std::span<const u8> bytes) { z.put(bytes, false, out); });
    z.put({}, true, out);
  } else {
    stream(s, out);
  }
  s.stored = file.offset() - s.offset;
  s.digest = XXH64_digest(&state);
}

// ---- the flatbuffer

i64 Writer::most(const Expr& e) const {
  if (e.most) return *e.most;
  if (e.is_constant()) return e.value;
  i64 value = 0;
  TG_CHECK(tgf::expr_valid(e.code.data(), e.code.size(), u32(upper_.size())), "malformed expression");
  TG_CHECK(tgf::expr_eval(e.code.data(), e.code.size(), upper_.data(), &value), "expression overflows at the variables' upper bounds");
  return value;
}

Offset<fb::Expr> Writer::expr(const Expr& e) {
  Offset<flatbuffers::Vector<u8>> code = e.is_constant() ? 0 : f_.CreateVector(e.code);
  return fb::CreateExpr(f_, most(e), code);
}

Offset<flatbuffers::Vector<Offset<fb::Expr>>> Writer::exprs(const std::vector<Expr>& v) {
  if (v.empty()) return 0;
  Offsets<fb::Expr> list;
  for (const Expr& e : v) list.push_back(expr(e));
  return f_.CreateVector(list);
}

Offset<fb::Signature> Writer::signature(const Signature& s) {
  Offsets<fb::Dim> dims;
  for (const Dim& d : s.dims) {
    TG_CHECK(d.size.is_constant() == d.name.empty(), "axis of ", s.name, ": free sizes have a name, fixed ones none");
    TG_CHECK(d.var < i32(d_.vars.size()), "axis of ", s.name, ": variable ", d.var);
    auto name = text(d.name);
    dims.push_back(fb::CreateDim(f_, expr(d.size), name, d.var));
  }
  auto name = f_.CreateString(s.name);
  return fb::CreateSignature(f_, name, fb::Dtype(s.dtype), f_.CreateVector(dims));
}

Offset<fb::Buffer> Writer::buffer(const Buffer& b, const std::vector<u32>& place) {
  std::vector<u32> on;
  for (u32 i : b.lies_on) on.push_back(place[i]);
  std::sort(on.begin(), on.end());
  Expr bytes = b.bytes;
  if (b.kind == BufferKind::Weight) {
    TG_CHECK(b.index < d_.constants.size() && b.form < d_.constants[b.index].forms.size(), "weight buffer of constant ", b.index, " form ",
             b.form);
    bytes = i64(d_.constants[b.index].forms[b.form].bytes.size);
  }
  Offset<flatbuffers::Vector<u32>> on_offset = on.empty() ? 0 : f_.CreateVector(on);
  Offset<fb::Image> image;
  if (b.image) {
    auto w = expr(b.image->width), h = expr(b.image->height);
    image = fb::CreateImage(f_, w, h, fb::Dtype(b.image->dtype));
  }
  return fb::CreateBuffer(f_, fb::BufferKind(b.kind), fb::Dtype(b.dtype), expr(bytes), on_offset, b.device, b.index, b.form, b.align,
                          image);
}

Offset<void> Writer::step(const Step& s, const std::vector<u32>& place) {
  if (auto* c = std::get_if<Copy>(&s)) {
    TG_CHECK(c->from < place.size() && c->to < place.size(), "copy from buffer ", c->from, " to ", c->to);
    auto from = expr(c->from_offset), to = expr(c->to_offset), bytes = expr(c->bytes);
    return fb::CreateCopy(f_, place[c->from], from, place[c->to], to, bytes).Union();
  }
  const Launch& l = std::get<Launch>(s);
  TG_CHECK(l.program < d_.programs.size(), "launch of program ", l.program);
  const Program& p = d_.programs[l.program];
  TG_CHECK(l.args.size() == p.params.size() && l.ints.size() == p.ints, p.label, " is launched with ", l.args.size(), " buffers and ",
           l.ints.size(), " integers, takes ", p.params.size(), " and ", p.ints);
  TG_CHECK(!l.grid.empty() && l.grid.size() <= 3 && l.block.size() <= 3, p.label, ": launch size");
  std::vector<u32> args;
  for (u32 a : l.args) {
    TG_CHECK(a < place.size(), p.label, ": buffer ", a);
    args.push_back(place[a]);
  }
  auto args_offset = f_.CreateVector(args);
  auto ints = exprs(l.ints), grid = exprs(l.grid);
  Offset<flatbuffers::Vector<u32>> block = l.block.empty() ? 0 : f_.CreateVector(l.block);
  Offset<fb::Expr> flops = l.flops ? expr(*l.flops) : 0, bytes = l.bytes ? expr(*l.bytes) : 0;
  return fb::CreateLaunch(f_, l.program, args_offset, ints, grid, block, flops, bytes).Union();
}

Offset<fb::Block> Writer::block(const Block& b, const std::vector<u32>& place) {
  std::vector<fb::Command> types;
  Offsets<void> commands;
  for (const Command& c : b.commands) {
    if (auto* batch = std::get_if<Batch>(&c)) {
      std::vector<fb::Step> step_types;
      Offsets<void> steps;
      for (const Step& s : batch->steps) {
        step_types.push_back(std::holds_alternative<Launch>(s) ? fb::Step::Launch : fb::Step::Copy);
        steps.push_back(step(s, place));
      }
      auto types_offset = f_.CreateVector(step_types);
      auto steps_offset = f_.CreateVector(steps);
      types.push_back(fb::Command::Batch);
      commands.push_back(fb::CreateBatch(f_, batch->device, types_offset, steps_offset).Union());
    } else if (auto* read = std::get_if<ReadVar>(&c)) {
      TG_CHECK(read->buffer < place.size() && read->var < d_.vars.size(), "ReadVar");
      types.push_back(fb::Command::ReadVar);
      commands.push_back(fb::CreateReadVar(f_, read->var, place[read->buffer], expr(read->offset)).Union());
    } else if (auto* set = std::get_if<SetVar>(&c)) {
      TG_CHECK(set->var < d_.vars.size(), "SetVar");
      types.push_back(fb::Command::SetVar);
      commands.push_back(fb::CreateSetVar(f_, set->var, expr(set->value)).Union());
    } else if (auto* branch = std::get_if<If>(&c)) {
      Offset<fb::Block> then = branch->then ? block(*branch->then, place) : 0,
                        otherwise = branch->otherwise ? block(*branch->otherwise, place) : 0;
      types.push_back(fb::Command::If);
      commands.push_back(fb::CreateIf(f_, expr(branch->cond), then, otherwise).Union());
    } else {
      const While& loop = std::get<While>(c);
      TG_CHECK(loop.body, "While without a body");
      auto body = block(*loop.body, place);
      types.push_back(fb::Command::While);
      commands.push_back(fb::CreateWhile(f_, expr(loop.cond), body, loop.most).Union());
    }
  }
  auto types_offset = f_.CreateVector(types);
  return fb::CreateBlock(f_, types_offset, f_.CreateVector(commands));
}

// place[i]: where buffer i stands in the file, so that each comes after those that it lies upon; buffers that are in order stay put.
std::vector<u32> buffer_order(const Variant& v) {
  size_t n = v.buffers.size();
  std::vector<u32> place(n, UINT32_MAX);
  u32 next = 0;
  while (next < n) {
    u32 before = next;
    for (size_t i = 0; i < n; i++) {
      if (place[i] != UINT32_MAX) continue;
      bool ready = true;
      for (u32 on : v.buffers[i].lies_on) {
        TG_CHECK(on < n, "buffer ", i, " lies on buffer ", on, " of ", n);
        ready &= place[on] != UINT32_MAX;
      }
      if (ready) place[i] = next++;
    }
    TG_CHECK(next > before, "buffers lie upon each other in a circle");
  }
  return place;
}

Offset<fb::Variant> Writer::variant(const Variant& v) {
  upper_ = upper_bounds(d_.vars, v.bounds);
  std::vector<u32> place = buffer_order(v), at(place.size());
  for (u32 i = 0; i < place.size(); i++) at[place[i]] = i;
  Offsets<fb::Buffer> buffers;
  for (u32 i : at) buffers.push_back(buffer(v.buffers[i], place));
  auto buffers_offset = f_.CreateVector(buffers);
  Offsets<fb::Bound> bounds;
  for (const Bound& b : v.bounds) bounds.push_back(fb::CreateBound(f_, b.var, b.min, b.max));
  auto bounds_offset = f_.CreateVector(bounds);
  auto body = block(v.body, place);
  Offset<fb::Block> prepare = v.prepare ? block(*v.prepare, place) : 0;
  u64 memory = 0;
  for (u32 d = 0; d < v.targets.size(); d++) memory += u64(plan_arena(v, d_.vars, d).bytes);
  auto targets = f_.CreateVector(v.targets);
  auto note = text(v.note);
  return fb::CreateVariant(f_, targets, bounds_offset, buffers_offset, body, prepare, memory, v.unmeasured, note);
}

Offset<fb::TestTensor> Writer::tensor(const TestTensor& t, size_t* part) {
  u64 offset = segments_[tests_].offsets[(*part)++];
  return fb::CreateTestTensor(f_, u32(tests_), offset, t.bytes.size, f_.CreateVector(t.dims));
}

std::vector<u8> Writer::meta() {
  f_.Clear();
  upper_ = upper_bounds(d_.vars, {});
  Offsets<fb::Signature> inputs, outputs;
  for (const Signature& s : d_.inputs) inputs.push_back(signature(s));
  for (const Signature& s : d_.outputs) outputs.push_back(signature(s));
  Offsets<fb::State> states;
  for (const State& s : d_.states) {
    auto in = text(s.input), out = text(s.output);
    states.push_back(fb::CreateState(f_, in, out, fb::Dtype(s.dtype), s.bytes, s.init));
  }
  Offsets<fb::Var> vars;
  for (const Var& v : d_.vars) vars.push_back(fb::CreateVar(f_, f_.CreateString(v.name), v.min, v.max, v.multiple));
  Offsets<fb::Segment> segments;
  f_.ForceDefaults(true);
  for (const SegmentPlan& s : segments_)
    segments.push_back(fb::CreateSegment(f_, s.content, s.zstd ? fb::Codec::Zstd : fb::Codec::Plain, s.offset, s.stored, s.size, s.digest));
  f_.ForceDefaults(false);
  Offsets<fb::Constant> constants;
  size_t part = 0;
  for (const Constant& c : d_.constants) {
    Offsets<fb::Form> forms;
    for (const Form& f : c.forms) {
      auto layout = text(f.layout);
      forms.push_back(f.derived
                          ? fb::CreateForm(f_, fb::Dtype(f.dtype), layout, -1, 0, f.bytes.size)
                          : fb::CreateForm(f_, fb::Dtype(f.dtype), layout, weights_, segments_[weights_].offsets[part++], f.bytes.size));
    }
    auto name = text(c.name);
    auto dims = f_.CreateVector(c.dims);
    constants.push_back(fb::CreateConstant(f_, name, fb::Dtype(c.dtype), dims, f_.CreateVector(forms)));
  }
  Offsets<fb::Target> targets;
  for (const Target& t : d_.targets) {
    auto needs = f_.CreateVectorOfStrings(t.needs);
    auto device = f_.CreateString(t.device);
    auto renderer = text(t.renderer), arch = text(t.arch);
    targets.push_back(fb::CreateTarget(f_, device, renderer, arch, needs));
  }
  Offsets<fb::Program> programs;
  for (const Program& p : d_.programs) {
    TG_CHECK(p.object < d_.objects.size() && p.target < d_.targets.size(), p.label, ": object ", p.object, ", target ", p.target);
    std::vector<u8> access;
    for (Access a : p.params) access.push_back(u8(a));
    auto entry = f_.CreateString(p.entry);
    auto params = f_.CreateVector(reinterpret_cast<const fb::Access*>(access.data()), access.size());
    auto label = text(p.label);
    programs.push_back(fb::CreateProgram(f_, entry, p.target, fb::ProgramKind(p.kind), u32(programs_),
                                         segments_[programs_].offsets[p.object], d_.objects[p.object].size, params, p.ints, p.local_bytes,
                                         label));
  }
  Offsets<fb::Variant> variants;
  for (const Variant& v : d_.variants) variants.push_back(variant(v));
  Offset<fb::Portable> portable;
  if (d_.portable) {
    Offsets<fb::TargetKernels> kernels;
    for (size_t i = 0; i < kernels_.size(); i++)
      kernels.push_back(fb::CreateTargetKernels(f_, d_.portable->kernels[i].target, u32(kernels_[i])));
    portable = fb::CreatePortable(f_, u32(graph_), f_.CreateVector(kernels));
  }
  Offsets<fb::KeyValue> settings;
  for (const KeyValue& s : d_.provenance.settings) {
    auto key = f_.CreateString(s.key);
    settings.push_back(fb::CreateKeyValue(f_, key, f_.CreateString(s.value)));
  }
  auto made_by = text(d_.provenance.made_by), model = text(d_.provenance.model), digest = text(d_.provenance.model_digest);
  auto licence = text(d_.provenance.licence), log = text(d_.provenance.log);
  auto provenance = fb::CreateProvenance(f_, made_by, model, digest, licence, f_.CreateVector(settings), log);
  Offsets<fb::TestVector> tests;
  size_t test_part = 0;
  for (const TestVector& t : d_.tests) {
    TG_CHECK(t.inputs.size() == d_.inputs.size() && t.outputs.size() == d_.outputs.size(), "test ", t.name, ": number of tensors");
    Offsets<fb::TestTensor> in, out;
    for (const TestTensor& x : t.inputs) in.push_back(tensor(x, &test_part));
    for (const TestTensor& x : t.outputs) out.push_back(tensor(x, &test_part));
    auto name = text(t.name);
    auto ins = f_.CreateVector(in);
    tests.push_back(fb::CreateTestVector(f_, name, ins, f_.CreateVector(out), t.absolute, t.relative));
  }
  // All features up to now are known to the first runtime.
  auto v_in = f_.CreateVector(inputs), v_out = f_.CreateVector(outputs);
  auto v_states = f_.CreateVector(states);
  auto v_vars = f_.CreateVector(vars);
  auto v_segments = f_.CreateVector(segments);
  auto v_constants = f_.CreateVector(constants);
  auto v_targets = f_.CreateVector(targets);
  auto v_programs = f_.CreateVector(programs);
  auto v_variants = f_.CreateVector(variants);
  auto v_tests = f_.CreateVector(tests);
  f_.Finish(fb::CreateBundle(f_, 1, features_, v_in, v_out, v_states, v_vars, v_segments, v_constants, v_targets, v_programs, v_variants,
                             portable, provenance, v_tests),
            fb::BundleIdentifier());
  return {f_.GetBufferPointer(), f_.GetBufferPointer() + f_.GetSize()};
}

WriteStats Writer::write(const std::string& path) {
  plan();
  u64 meta_bytes = meta().size();
  OutputFile file(path);
  std::vector<u8> front(sizeof(tgf::Header) + meta_bytes);
  file.write(front);
  for (SegmentPlan& s : segments_) write_segment(s, file);
  std::vector<u8> m = meta();
  TG_CHECK(m.size() == meta_bytes, "the flatbuffer changed its length: ", meta_bytes, " to ", m.size());
  tgf::Header h = {};
  std::memcpy(h.magic, tgf::kMagic, sizeof h.magic);
  h.version = tgf::kVersion, h.min_runtime = 1;
  h.meta_offset = sizeof h, h.meta_bytes = m.size(), h.meta_digest = XXH64(m.data(), m.size(), 0);
  h.file_bytes = file.offset();
  h.digest = XXH64(&h, sizeof h - sizeof h.digest, 0);
  std::memcpy(front.data(), &h, sizeof h);
  std::memcpy(front.data() + sizeof h, m.data(), m.size());
  file.write_at(0, front);
  file.commit();
  WriteStats stats;
  stats.file_bytes = h.file_bytes, stats.meta_bytes = m.size();
  for (const SegmentPlan& s : segments_) {
    if (s.content == fb::Content::Programs) stats.program_bytes += s.stored;
    if (s.content == fb::Content::Weights) stats.weight_bytes += s.stored;
    if (s.content == fb::Content::Graph || s.content == fb::Content::Kernels) stats.portable_bytes += s.stored;
  }
  return stats;
}

}  // namespace

WriteStats write_bundle(const BundleDesc& desc, const std::string& path, const WriteOptions& options) {
  return Writer(desc, options).write(path);
}

Arena plan_arena(const Variant& v, const std::vector<Var>& vars, u32 device) {
  std::vector<i64> upper = upper_bounds(vars, v.bounds);
  Arena arena;
  arena.offsets.assign(v.buffers.size(), -1);
  std::vector<u32> place = buffer_order(v), at(place.size());
  for (u32 i = 0; i < place.size(); i++) at[place[i]] = i;
  std::vector<i64> ends(v.buffers.size(), 0);
  for (u32 i : at) {
    const Buffer& b = v.buffers[i];
    if (b.device != device || b.kind == BufferKind::Weight || b.kind == BufferKind::State) continue;
    i64 offset = 0, bytes = b.bytes.value;
    for (u32 on : b.lies_on) offset = std::max(offset, ends[on]);
    if (b.bytes.most)
      bytes = *b.bytes.most;
    else if (!b.bytes.is_constant())
      TG_CHECK(tgf::expr_eval(b.bytes.code.data(), b.bytes.code.size(), upper.data(), &bytes), "size of buffer ", i);
    offset = i64(round_up(u64(offset), std::max<u64>(tgf::kBufferAlign, b.align)));
    arena.offsets[i] = offset;
    ends[i] = offset + bytes;
    arena.bytes = std::max(arena.bytes, ends[i]);
  }
  return arena;
}

}  // namespace tg::bundle
