// File -> BundleDesc, for retune, inspect and diff. The checks are the runtime's own (formats/check.h); all digests are looked at.
#include <zstd.h>

#include <cstring>
#include <deque>

#include "base/error.h"
#include "base/file.h"
#include "bundle/bundle.h"
#include "formats/check.h"

namespace tg::bundle {
namespace {

namespace fb = tgf::fb;

struct Storage {
  explicit Storage(const std::string& path) : file(path) {}
  MappedFile file;
  std::deque<std::vector<u8>> unpacked;
};

std::string text(const flatbuffers::String* s) { return s ? s->str() : std::string(); }

class Reader {
 public:
  Reader(const std::string& path, std::shared_ptr<Storage> storage) : path_(path), storage_(std::move(storage)) {}
  Loaded read();

 private:
  void load_segments();
  Bytes bytes(u32 segment, u64 offset, u64 size) const { return Bytes::view(segments_[segment].subspan(offset, size)); }
  std::vector<u8> all(u32 segment) const { return {segments_[segment].begin(), segments_[segment].end()}; }
  Expr expr(const fb::Expr* e) const;
  std::vector<Expr> exprs(const flatbuffers::Vector<flatbuffers::Offset<fb::Expr>>* v) const;
  std::vector<Signature> signatures(const flatbuffers::Vector<flatbuffers::Offset<fb::Signature>>* v) const;
  Buffer buffer(const fb::Buffer& b) const;
  Block block(const fb::Block& b) const;
  Step step(fb::Step type, const void* s) const;
  void programs(BundleDesc& d) const;
  Variant variant(const fb::Variant& v) const;

  std::string path_;
  std::shared_ptr<Storage> storage_;
  const fb::Bundle* b_ = nullptr;
  std::vector<std::span<const u8>> segments_;  // unpacked
};

template <class V, class F>
void each(const V* v, F f) {
  if (v)
    for (auto x : *v) f(x);
}

void Reader::load_segments() {
  std::span<const u8> file = storage_->file.bytes();
  u32 index = 0;
  each(b_->segments(), [&](const fb::Segment* s) {
    if (!tgf::segment_intact(file.data(), *s)) fail(path_, ": segment ", index, " is damaged (digest); copy the file again");
    std::span<const u8> stored = file.subspan(s->offset(), s->stored());
    if (s->codec() == fb::Codec::Zstd) {
      std::vector<u8> out;
      // The stated size is not trusted with memory before the frame says the same or the stream proves it.
      u64 frame = ZSTD_getFrameContentSize(stored.data(), stored.size());
      if (frame == ZSTD_CONTENTSIZE_ERROR || (frame != ZSTD_CONTENTSIZE_UNKNOWN && frame != s->size()))
        fail(path_, ": segment ", index, " is malformed (zstd frame)");
      ZSTD_DCtx* c = ZSTD_createDCtx();
      ZSTD_inBuffer in{stored.data(), stored.size(), 0};
      size_t left = 1;
      while (left && out.size() <= s->size()) {
        size_t at = out.size();
        out.resize(at + (1 << 17));
        ZSTD_outBuffer o{out.data() + at, out.size() - at, 0};
        left = ZSTD_decompressStream(c, &o, &in);
        out.resize(at + o.pos);
        if (ZSTD_isError(left) || (left && in.pos == in.size && o.pos < o.size)) break;
      }
      ZSTD_freeDCtx(c);
      if (left || in.pos != in.size || out.size() != s->size()) fail(path_, ": segment ", index, " does not unpack to its size");
      storage_->unpacked.push_back(std::move(out));
      segments_.push_back(storage_->unpacked.back());
    } else {
      segments_.push_back(stored);
    }
    index++;
  });
}

Expr Reader::expr(const fb::Expr* e) const {
  Expr r;
  if (!e) return r;
  r.value = e->value();
  if (e->code()) {
    r.code.assign(e->code()->begin(), e->code()->end());
    r.most = e->value();
    r.value = 0;
  }
  return r;
}

std::vector<Expr> Reader::exprs(const flatbuffers::Vector<flatbuffers::Offset<fb::Expr>>* v) const {
  std::vector<Expr> r;
  each(v, [&](const fb::Expr* e) { r.push_back(expr(e)); });
  return r;
}

std::vector<Signature> Reader::signatures(const flatbuffers::Vector<flatbuffers::Offset<fb::Signature>>* v) const {
  std::vector<Signature> r;
  each(v, [&](const fb::Signature* s) {
    r.push_back({text(s->name()), tgf::Dtype(s->dtype()), {}});
    each(s->dims(), [&](const fb::Dim* d) { r.back().dims.push_back({expr(d->size()), text(d->name()), d->var()}); });
  });
  return r;
}

Buffer Reader::buffer(const fb::Buffer& b) const {
  Buffer r;
  r.kind = BufferKind(b.kind()), r.dtype = tgf::Dtype(b.dtype());
  r.bytes = b.kind() == fb::BufferKind::Weight ? Expr() : expr(b.bytes());
  each(b.lies_on(), [&](u32 i) { r.lies_on.push_back(i); });
  r.device = b.device(), r.index = b.index(), r.form = b.form(), r.align = b.align();
  if (auto* i = b.image()) r.image = Image{expr(i->width()), expr(i->height()), tgf::Dtype(i->dtype())};
  return r;
}

Step Reader::step(fb::Step type, const void* s) const {
  if (type == fb::Step::Copy) {
    const fb::Copy& c = *static_cast<const fb::Copy*>(s);
    return Copy{c.from(), expr(c.from_offset()), c.to(), expr(c.to_offset()), expr(c.bytes())};
  }
  const fb::Launch& l = *static_cast<const fb::Launch*>(s);
  Launch r;
  r.program = l.program();
  each(l.args(), [&](u32 a) { r.args.push_back(a); });
  r.ints = exprs(l.ints()), r.grid = exprs(l.grid());
  each(l.block(), [&](u32 n) { r.block.push_back(n); });
  if (l.flops()) r.flops = expr(l.flops());
  if (l.bytes()) r.bytes = expr(l.bytes());
  return r;
}

Block Reader::block(const fb::Block& b) const {
  Block r;
  for (u32 i = 0; b.commands() && i < b.commands()->size(); i++) switch (fb::Command(b.commands_type()->Get(i))) {
      case fb::Command::Batch: {
        const fb::Batch& x = *b.commands()->GetAs<fb::Batch>(i);
        Batch batch{x.device(), {}};
        for (u32 k = 0; x.steps() && k < x.steps()->size(); k++)
          batch.steps.push_back(step(fb::Step(x.steps_type()->Get(k)), x.steps()->GetAs<void>(k)));
        r.commands.push_back(std::move(batch));
        break;
      }
      case fb::Command::ReadVar: {
        const fb::ReadVar& x = *b.commands()->GetAs<fb::ReadVar>(i);
        r.commands.push_back(ReadVar{x.var(), x.buffer(), expr(x.offset())});
        break;
      }
      case fb::Command::SetVar: {
        const fb::SetVar& x = *b.commands()->GetAs<fb::SetVar>(i);
        r.commands.push_back(SetVar{x.var(), expr(x.value())});
        break;
      }
      case fb::Command::If: {
        const fb::If& x = *b.commands()->GetAs<fb::If>(i);
        If out{expr(x.cond()), nullptr, nullptr};
        if (x.then()) out.then = std::make_shared<Block>(block(*x.then()));
        if (x.otherwise()) out.otherwise = std::make_shared<Block>(block(*x.otherwise()));
        r.commands.push_back(std::move(out));
        break;
      }
      case fb::Command::While: {
        const fb::While& x = *b.commands()->GetAs<fb::While>(i);
        r.commands.push_back(While{expr(x.cond()), std::make_shared<Block>(block(*x.body())), x.most()});
        break;
      }
      default: TG_CHECK(false, "unknown command passed the check");
    }
  return r;
}

void Reader::programs(BundleDesc& d) const {
  std::vector<std::pair<u32, u64>> seen;  // (segment, offset) of each object, in order
  each(b_->programs(), [&](const fb::Program* p) {
    std::pair<u32, u64> key(p->segment(), p->offset());
    u32 object = 0;
    while (object < seen.size() && (seen[object] != key || d.objects[object].size != p->bytes())) object++;
    if (object == seen.size()) {
      seen.push_back(key);
      d.objects.push_back(bytes(p->segment(), p->offset(), p->bytes()));
    }
    Program r;
    r.label = text(p->label()), r.entry = text(p->entry());
    r.target = p->target(), r.kind = ProgramKind(p->kind()), r.object = object;
    each(p->params(), [&](auto a) { r.params.push_back(Access(a)); });
    r.ints = p->ints(), r.local_bytes = p->local_bytes();
    d.programs.push_back(std::move(r));
  });
}

Variant Reader::variant(const fb::Variant& v) const {
  Variant r;
  each(v.targets(), [&](u32 t) { r.targets.push_back(t); });
  each(v.bounds(), [&](const fb::Bound* b) { r.bounds.push_back({b->var(), b->min(), b->max()}); });
  each(v.buffers(), [&](const fb::Buffer* b) { r.buffers.push_back(buffer(*b)); });
  r.body = block(*v.body());
  if (v.prepare()) r.prepare = block(*v.prepare());
  r.unmeasured = v.unmeasured(), r.note = text(v.note());
  return r;
}

Loaded Reader::read() {
  std::span<const u8> file = storage_->file.bytes();
  char why[512];
  if (tgf::check_bundle(file.data(), file.size(), &b_, why, sizeof why) != tgf::Verdict::Good)
    fail(path_, ": ", static_cast<const char*>(why));
  load_segments();
  Loaded r;
  r.min_runtime = b_->min_runtime(), r.features = b_->features();
  BundleDesc& d = r.desc;
  d.inputs = signatures(b_->inputs()), d.outputs = signatures(b_->outputs());
  each(b_->states(), [&](const fb::State* s) {
    d.states.push_back({text(s->input()), text(s->output()), tgf::Dtype(s->dtype()), s->bytes(), s->init()});
  });
  each(b_->vars(), [&](const fb::Var* v) { d.vars.push_back({text(v->name()), v->min(), v->max(), v->multiple()}); });
  each(b_->constants(), [&](const fb::Constant* c) {
    Constant k{text(c->name()), tgf::Dtype(c->dtype()), {}, {}};
    each(c->dims(), [&](i64 n) { k.dims.push_back(n); });
    each(c->forms(), [&](const fb::Form* f) {
      Form form{tgf::Dtype(f->dtype()), text(f->layout()), {}, f->segment() < 0};
      if (form.derived)
        form.bytes.size = f->bytes();
      else
        form.bytes = bytes(u32(f->segment()), f->offset(), f->bytes());
      k.forms.push_back(std::move(form));
    });
    d.constants.push_back(std::move(k));
  });
  each(b_->targets(), [&](const fb::Target* t) {
    d.targets.push_back({text(t->device()), text(t->renderer()), text(t->arch()), {}});
    each(t->needs(), [&](const flatbuffers::String* s) { d.targets.back().needs.push_back(text(s)); });
  });
  programs(d);
  each(b_->variants(), [&](const fb::Variant* v) { d.variants.push_back(variant(*v)); });
  if (auto* p = b_->portable()) {
    d.portable = Portable{all(p->graph()), {}};
    each(p->kernels(), [&](const fb::TargetKernels* k) { d.portable->kernels.push_back({k->target(), all(k->segment())}); });
  }
  if (auto* p = b_->provenance()) {
    d.provenance = {text(p->made_by()), text(p->model()), text(p->model_digest()), text(p->licence()), text(p->log()), {}};
    each(p->settings(), [&](const fb::KeyValue* s) { d.provenance.settings.push_back({text(s->key()), text(s->value())}); });
  }
  each(b_->tests(), [&](const fb::TestVector* t) {
    TestVector v{text(t->name()), {}, {}, t->absolute(), t->relative()};
    auto fill = [&](auto* from, std::vector<TestTensor>& to) {
      each(from, [&](const fb::TestTensor* x) {
        to.push_back({bytes(x->segment(), x->offset(), x->bytes()), {}});
        each(x->dims(), [&](i64 n) { to.back().dims.push_back(n); });
      });
    };
    fill(t->inputs(), v.inputs), fill(t->outputs(), v.outputs);
    d.tests.push_back(std::move(v));
  });
  r.storage = storage_;
  return r;
}

}  // namespace

Loaded read_bundle(const std::string& path) { return Reader(path, std::make_shared<Storage>(path)).read(); }

}  // namespace tg::bundle
