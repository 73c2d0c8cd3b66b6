// The checks follow the schema from top to bottom. Whatever they let through is safe to use: loops over vectors need no further test.
#include "formats/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/checksum.h"
#include "formats/dtype.h"
#include "formats/expr.h"
#include "formats/verify.h"

namespace tgf {
namespace {

#define TGF_X(Name, NAME, text, bits, cls, onnx, npy) static_assert(uint8_t(fb::Dtype::Name) == uint8_t(Dtype::Name));
TGF_DTYPES(TGF_X)
#undef TGF_X
static_assert(uint32_t(fb::Dtype::MAX) + 1 == kDtypes);

template <class T>
uint32_t count(const flatbuffers::Vector<T>* v) {
  return v ? v->size() : 0;
}

class Checker {
 public:
  Checker(const fb::Bundle& b, char* error, size_t error_bytes) : b_(b), error_(error), error_bytes_(error_bytes) {}
  bool bundle(uint64_t file_bytes, uint64_t meta_end);

 private:
  __attribute__((format(printf, 2, 3))) bool bad(const char* format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error_, error_bytes_, format, args);
    va_end(args);
    return false;
  }
  // The place being checked, for messages: "variant 1, buffer 7".
  bool wrong(const char* what, uint64_t i, const char* why) { return bad("%s %llu: %s", what, (unsigned long long)i, why); }
  bool wrong(const char* what, uint64_t i, const char* part, uint64_t j, const char* why) {
    return bad("%s %llu, %s %llu: %s", what, (unsigned long long)i, part, (unsigned long long)j, why);
  }

  bool expr(const fb::Expr* e) const { return !e || !e->code() || expr_valid(e->code()->data(), e->code()->size(), count(b_.vars())); }
  template <class V>
  bool exprs(const V* v) const {
    if (v)
      for (const fb::Expr* e : *v)
        if (!expr(e)) return false;
    return true;
  }
  static bool dtype(fb::Dtype d) { return d <= fb::Dtype::MAX; }
  static bool inside(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }
  const fb::Segment* segment(uint64_t i, fb::Content content) const {
    return i < count(b_.segments()) && b_.segments()->Get(uint32_t(i))->content() == content ? b_.segments()->Get(uint32_t(i)) : nullptr;
  }

  bool segments(uint64_t file_bytes, uint64_t meta_end);
  bool signatures(const char* what, const flatbuffers::Vector<flatbuffers::Offset<fb::Signature>>* list);
  bool constants();
  bool programs();
  bool tests();
  bool variant(uint32_t v);
  bool buffer(uint32_t v, uint32_t i, const fb::Variant& var);
  bool block(const fb::Block* block, uint32_t depth);
  bool batch(const fb::Batch& batch);
  bool launch(const fb::Launch& launch, uint32_t device);
  bool writable(const fb::Buffer& buffer) const;

  const fb::Bundle& b_;
  char* error_;
  size_t error_bytes_;
  uint32_t v_ = 0;  // the variant whose blocks are being checked
  bool preparing_ = false;
};

bool Checker::segments(uint64_t file_bytes, uint64_t meta_end) {
  uint64_t end = meta_end;
  for (uint32_t i = 0; i < count(b_.segments()); i++) {
    const fb::Segment& s = *b_.segments()->Get(i);
    if (s.codec() > fb::Codec::MAX || s.content() > fb::Content::MAX) return wrong("segment", i, "unknown codec or content");
    if (s.offset() % kSegmentAlign || s.offset() < end) return wrong("segment", i, "wrong place");
    if (!inside(s.offset(), s.stored(), file_bytes)) return wrong("segment", i, "beyond the end of the file");
    if (s.size() > uint64_t(kMaxBytes) || (s.codec() == fb::Codec::Plain && s.size() != s.stored()))
      return wrong("segment", i, "wrong size");
    if (s.content() == fb::Content::Programs && s.codec() != fb::Codec::Plain) return wrong("segment", i, "programs are stored plain");
    if (s.content() == fb::Content::Weights && s.codec() != fb::Codec::Plain && !(b_.features() & kCompressedWeights))
      return wrong("segment", i, "is not among the features");
    end = s.offset() + s.stored();
  }
  return true;
}

bool Checker::signatures(const char* what, const flatbuffers::Vector<flatbuffers::Offset<fb::Signature>>* list) {
  for (uint32_t i = 0; i < count(list); i++) {
    const fb::Signature& s = *list->Get(i);
    if (!dtype(s.dtype())) return wrong(what, i, "unknown dtype");
    if (count(s.dims()) > kMaxRank) return wrong(what, i, "more than 32 axes");
    for (uint32_t k = 0; k < count(s.dims()); k++) {
      const fb::Dim& d = *s.dims()->Get(k);
      if (!expr(d.size()) || d.var() < -1 || d.var() >= int64_t(count(b_.vars()))) return wrong(what, i, "axis", k, "bad expression");
      if (!d.name() && (d.size()->code() || d.size()->value() < 0)) return wrong(what, i, "axis", k, "bad size");
    }
  }
  return true;
}

bool Checker::constants() {
  for (uint32_t i = 0; i < count(b_.constants()); i++) {
    const fb::Constant& c = *b_.constants()->Get(i);
    if (!dtype(c.dtype()) || !count(c.forms())) return wrong("constant", i, "unknown dtype or no form");
    for (uint32_t k = 0; k < count(c.forms()); k++) {
      const fb::Form& f = *c.forms()->Get(k);
      if (!dtype(f.dtype()) || f.bytes() > uint64_t(kMaxBytes)) return wrong("constant", i, "form", k, "wrong dtype or size");
      if (f.segment() == -1) continue;
      const fb::Segment* s = f.segment() >= 0 ? segment(uint64_t(f.segment()), fb::Content::Weights) : nullptr;
      if (!s || f.offset() % kConstantAlign || !inside(f.offset(), f.bytes(), s->size()))
        return wrong("constant", i, "form", k, "not inside its segment");
    }
  }
  for (uint32_t i = 0; i < count(b_.states()); i++) {
    const fb::State& s = *b_.states()->Get(i);
    if (!dtype(s.dtype()) || s.bytes() > uint64_t(kMaxBytes)) return wrong("state", i, "wrong dtype or size");
    if (s.init() == -1) continue;
    if (s.init() < -1 || s.init() >= int64_t(count(b_.constants()))) return wrong("state", i, "bad first value");
    const fb::Form& f = *b_.constants()->Get(uint32_t(s.init()))->forms()->Get(0);
    if (f.segment() < 0 || f.bytes() != s.bytes()) return wrong("state", i, "bad first value");
  }
  return true;
}

bool Checker::programs() {
  for (uint32_t i = 0; i < count(b_.programs()); i++) {
    const fb::Program& p = *b_.programs()->Get(i);
    if (p.target() >= count(b_.targets())) return wrong("program", i, "unknown target");
    if (p.kind() > fb::ProgramKind::MAX) return wrong("program", i, "unknown kind");
    const fb::Segment* s = segment(p.segment(), fb::Content::Programs);
    if (!s || p.offset() % kBufferAlign || !inside(p.offset(), p.bytes(), s->size())) return wrong("program", i, "not inside its segment");
    if (count(p.params()) > kMaxParams || p.ints() > kMaxParams) return wrong("program", i, "too many parameters");
    for (uint32_t k = 0; k < count(p.params()); k++)
      if (uint8_t(p.params()->Get(k)) < 1 || uint8_t(p.params()->Get(k)) > 3) return wrong("program", i, "parameter", k, "unknown access");
  }
  return true;
}

bool Checker::tests() {
  for (uint32_t i = 0; i < count(b_.tests()); i++) {
    const fb::TestVector& t = *b_.tests()->Get(i);
    if (count(t.inputs()) != count(b_.inputs()) || count(t.outputs()) != count(b_.outputs()))
      return wrong("test", i, "wrong number of tensors");
    for (auto* list : {t.inputs(), t.outputs()})
      for (uint32_t k = 0; k < count(list); k++) {
        const fb::TestTensor& x = *list->Get(k);
        const fb::Segment* s = segment(x.segment(), fb::Content::Tests);
        if (!s || x.offset() % kConstantAlign || !inside(x.offset(), x.bytes(), s->size()) || count(x.dims()) > kMaxRank)
          return wrong("test", i, "tensor", k, "not inside its segment");
      }
  }
  return true;
}

bool Checker::buffer(uint32_t v, uint32_t i, const fb::Variant& var) {
  const fb::Buffer& x = *var.buffers()->Get(i);
  if (x.kind() > fb::BufferKind::MAX || !dtype(x.dtype())) return wrong("variant", v, "buffer", i, "wrong kind or dtype");
  if (x.device() >= var.targets()->size()) return wrong("variant", v, "buffer", i, "unknown device");
  if (!expr(x.bytes()) || x.bytes()->value() < 0 || x.bytes()->value() > kMaxBytes) return wrong("variant", v, "buffer", i, "wrong size");
  if (!x.align() || (x.align() & (x.align() - 1)) || x.align() > 4096) return wrong("variant", v, "buffer", i, "wrong alignment");
  uint32_t limit[] = {count(b_.inputs()), count(b_.outputs()), count(b_.constants()), count(b_.states()), UINT32_MAX};
  if (x.index() >= limit[uint8_t(x.kind())]) return wrong("variant", v, "buffer", i, "bad index");
  if (x.kind() == fb::BufferKind::Weight) {
    const fb::Constant& c = *b_.constants()->Get(x.index());
    if (x.form() >= c.forms()->size() || x.bytes()->code() || uint64_t(x.bytes()->value()) != c.forms()->Get(x.form())->bytes())
      return wrong("variant", v, "buffer", i, "wrong form or size");
  }
  if (x.kind() == fb::BufferKind::State && (x.bytes()->code() || uint64_t(x.bytes()->value()) != b_.states()->Get(x.index())->bytes()))
    return wrong("variant", v, "buffer", i, "wrong form or size");
  bool planned = x.kind() != fb::BufferKind::Weight && x.kind() != fb::BufferKind::State;
  if (!planned && count(x.lies_on())) return wrong("variant", v, "buffer", i, "lies on another, unplanned");
  for (uint32_t k = 0; k < count(x.lies_on()); k++) {
    uint32_t on = x.lies_on()->Get(k);
    if (on >= i) return wrong("variant", v, "buffer", i, "lies on a later one");
    const fb::Buffer& o = *var.buffers()->Get(on);
    if (o.device() != x.device() || o.kind() == fb::BufferKind::Weight || o.kind() == fb::BufferKind::State)
      return wrong("variant", v, "buffer", i, "lies on one elsewhere");
  }
  if (x.image() && (!expr(x.image()->width()) || !expr(x.image()->height()) || !dtype(x.image()->dtype())))
    return wrong("variant", v, "buffer", i, "bad image");
  return true;
}

bool Checker::writable(const fb::Buffer& buffer) const {
  if (buffer.kind() != fb::BufferKind::Weight) return true;
  return preparing_ && b_.constants()->Get(buffer.index())->forms()->Get(buffer.form())->segment() == -1;
}

bool Checker::launch(const fb::Launch& x, uint32_t device) {
  const fb::Variant& var = *b_.variants()->Get(v_);
  if (x.program() >= count(b_.programs())) return wrong("variant", v_, "unknown program");
  const fb::Program& p = *b_.programs()->Get(x.program());
  if (p.target() != var.targets()->Get(device)) return wrong("variant", v_, "program", x.program(), "is for another target");
  if (count(x.args()) != count(p.params()) || count(x.ints()) != p.ints())
    return wrong("variant", v_, "program", x.program(), "wrong number of arguments");
  if (count(x.grid()) < 1 || count(x.grid()) > 3 || count(x.block()) > 3)
    return wrong("variant", v_, "program", x.program(), "wrong launch size");
  if (!exprs(x.ints()) || !exprs(x.grid()) || !expr(x.flops()) || !expr(x.bytes()))
    return wrong("variant", v_, "program", x.program(), "bad expression");
  for (uint32_t i = 0; i < count(x.args()); i++) {
    uint32_t a = x.args()->Get(i);
    if (a >= count(var.buffers()) || var.buffers()->Get(a)->device() != device)
      return wrong("variant", v_, "program", x.program(), "bad buffer");
    if ((uint8_t(p.params()->Get(i)) & 2) && !writable(*var.buffers()->Get(a)))
      return wrong("variant", v_, "program", x.program(), "writes a constant");
  }
  return true;
}

bool Checker::batch(const fb::Batch& x) {
  const fb::Variant& var = *b_.variants()->Get(v_);
  if (x.device() >= var.targets()->size()) return wrong("variant", v_, "unknown device");
  for (uint32_t i = 0; i < count(x.steps()); i++) {
    fb::Step type = fb::Step(x.steps_type()->Get(i));
    if (type == fb::Step::Launch) {
      if (!launch(*static_cast<const fb::Launch*>(x.steps()->GetAs<fb::Launch>(i)), x.device())) return false;
    } else if (type == fb::Step::Copy) {
      const fb::Copy& c = *x.steps()->GetAs<fb::Copy>(i);
      if (c.from() >= count(var.buffers()) || c.to() >= count(var.buffers()) || !writable(*var.buffers()->Get(c.to())))
        return wrong("variant", v_, "a copy has a bad buffer");
      if (!expr(c.from_offset()) || !expr(c.to_offset()) || !expr(c.bytes())) return wrong("variant", v_, "bad expression");
    } else {
      return bad("variant %u: unknown step %u; needs a runtime of version %u or later", v_, unsigned(type), b_.min_runtime());
    }
  }
  return true;
}

bool Checker::block(const fb::Block* block, uint32_t depth) {
  if (!block) return true;
  if (depth > kMaxDepth) return wrong("variant", v_, "blocks are nested too deeply");
  const fb::Variant& var = *b_.variants()->Get(v_);
  for (uint32_t i = 0; i < count(block->commands()); i++) {
    fb::Command type = fb::Command(block->commands_type()->Get(i));
    if (type != fb::Command::Batch && !(b_.features() & kControlFlow)) {
      if (type <= fb::Command::MAX && type != fb::Command::NONE) return wrong("variant", v_, "is not among the features");
    }
    bool good = true;
    switch (type) {
      case fb::Command::Batch:
        if (!batch(*block->commands()->GetAs<fb::Batch>(i))) return false;
        break;
      case fb::Command::ReadVar: {
        const fb::ReadVar& c = *block->commands()->GetAs<fb::ReadVar>(i);
        good = c.var() < count(b_.vars()) && c.buffer() < count(var.buffers()) && expr(c.offset());
        if (good) {
          fb::Dtype d = var.buffers()->Get(c.buffer())->dtype();
          good = d == fb::Dtype::I32 || d == fb::Dtype::I64;
        }
        break;
      }
      case fb::Command::SetVar: {
        const fb::SetVar& c = *block->commands()->GetAs<fb::SetVar>(i);
        good = c.var() < count(b_.vars()) && expr(c.value());
        break;
      }
      case fb::Command::If: {
        const fb::If& c = *block->commands()->GetAs<fb::If>(i);
        good = expr(c.cond());
        if (good && (!this->block(c.then(), depth + 1) || !this->block(c.otherwise(), depth + 1))) return false;
        break;
      }
      case fb::Command::While: {
        const fb::While& c = *block->commands()->GetAs<fb::While>(i);
        good = expr(c.cond());
        if (good && !this->block(c.body(), depth + 1)) return false;
        break;
      }
      default: return bad("variant %u: unknown command %u; needs a runtime of version %u or later", v_, unsigned(type), b_.min_runtime());
    }
    if (!good) return wrong("variant", v_, "bad command");
  }
  return true;
}

bool Checker::variant(uint32_t v) {
  const fb::Variant& x = *b_.variants()->Get(v);
  v_ = v;
  if (!x.targets()->size() || x.targets()->size() > 16) return wrong("variant", v, "wrong number of targets");
  for (uint32_t t : *x.targets())
    if (t >= count(b_.targets())) return wrong("variant", v, "unknown target");
  for (uint32_t i = 0; i < count(x.bounds()); i++) {
    const fb::Bound& bound = *x.bounds()->Get(i);
    if (bound.var() >= count(b_.vars())) return wrong("variant", v, "bad bounds");
    const fb::Var& var = *b_.vars()->Get(bound.var());
    if (bound.min() > bound.max() || bound.min() < var.min() || bound.max() > var.max()) return wrong("variant", v, "bad bounds");
  }
  for (uint32_t i = 0; i < count(x.buffers()); i++)
    if (!buffer(v, i, x)) return false;
  if (x.prepare() && !(b_.features() & kDerivedForms)) return wrong("variant", v, "is not among the features");
  preparing_ = true;
  if (!block(x.prepare(), 0)) return false;
  preparing_ = false;
  return block(x.body(), 0);
}

bool Checker::bundle(uint64_t file_bytes, uint64_t meta_end) {
  if (!segments(file_bytes, meta_end)) return false;
  if (count(b_.vars()) > 65535) return bad("more than 65535 variables");
  for (uint32_t i = 0; i < count(b_.vars()); i++) {
    const fb::Var& v = *b_.vars()->Get(i);
    if (v.min() > v.max() || v.multiple() < 1) return wrong("variable", i, "wrong bounds");
  }
  if (!signatures("input", b_.inputs()) || !signatures("output", b_.outputs()) || !constants() || !programs() || !tests()) return false;
  for (uint32_t i = 0; i < count(b_.variants()); i++)
    if (!variant(i)) return false;
  if (const fb::Portable* p = b_.portable()) {
    bool good = segment(p->graph(), fb::Content::Graph) != nullptr;
    for (uint32_t i = 0; i < count(p->kernels()); i++) {
      const fb::TargetKernels& k = *p->kernels()->Get(i);
      good = good && k.target() < count(b_.targets()) && segment(k.segment(), fb::Content::Kernels);
    }
    if (!good) return bad("portable part: unknown segment or target");
  }
  return true;
}

}  // namespace

bool segment_intact(const void* file, const fb::Segment& s) {
  return checksum(static_cast<const char*>(file) + s.offset(), size_t(s.stored())) == s.digest();
}

Verdict check_bundle(const void* bytes, uint64_t size, const fb::Bundle** out, char* error, size_t error_bytes) {
  auto say = [&](Verdict v, const char* why) {
    snprintf(error, error_bytes, "%s", why);
    return v;
  };
  if (size < sizeof(Header) || memcmp(bytes, kMagic, sizeof kMagic)) return say(Verdict::Bad, "is not a .tgb bundle");
  Header h;
  memcpy(&h, bytes, sizeof h);
  if (checksum(bytes, sizeof h - sizeof h.digest) != h.digest) return say(Verdict::Bad, "the header is damaged");
  if (h.version > kVersion || h.min_runtime > kRuntimeVersion) {
    snprintf(error, error_bytes, "needs a runtime of version %u or later, this is %u", h.min_runtime, kRuntimeVersion);
    return Verdict::TooNew;
  }
  if (h.file_bytes != size) {
    snprintf(error, error_bytes, "is %llu bytes long, its header says %llu: truncated or damaged; copy it again", (unsigned long long)size,
             (unsigned long long)h.file_bytes);
    return Verdict::Bad;
  }
  if (h.meta_offset != sizeof h || h.meta_bytes > size - sizeof h || h.meta_bytes > UINT32_MAX / 2)
    return say(Verdict::Bad, "the header is damaged");
  const uint8_t* meta = static_cast<const uint8_t*>(bytes) + h.meta_offset;
  if (checksum(meta, size_t(h.meta_bytes)) != h.meta_digest) return say(Verdict::Bad, "the description is damaged (digest)");
  if (!verify_flatbuffer(meta, size_t(h.meta_bytes))) return say(Verdict::Bad, "the description is malformed");
  const fb::Bundle* b = fb::GetBundle(meta);
  if (b->min_runtime() > kRuntimeVersion || (b->features() & ~kKnownFeatures)) {
    snprintf(error, error_bytes, "needs a runtime of version %u or later (features %llx), this is %u", b->min_runtime(),
             (unsigned long long)(b->features() & ~kKnownFeatures), kRuntimeVersion);
    return Verdict::TooNew;
  }
  if (!Checker(*b, error, error_bytes).bundle(size, h.meta_offset + h.meta_bytes)) return Verdict::Bad;
  *out = b;
  return Verdict::Good;
}

}  // namespace tgf
