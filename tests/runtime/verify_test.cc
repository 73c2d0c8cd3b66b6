// The verifier by table (formats/verify.cc) against flatc: its tables are compared with the schema as flatc understands it, and its
// verdicts on damaged bytes with those of the verifier that flatc generates.
#include "formats/verify.h"

#include <flatbuffers/reflection.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "formats/bundle_generated.h"
#include "formats/header.h"
#include "sample.h"

namespace sample {
namespace {

// Row of each table, in the order of formats/verify.cc.
const char* const kNames[] = {"Expr",     "Var",        "KeyValue",   "Dim",        "Signature", "State",  "Segment", "Form",
                              "Constant", "Target",     "Program",    "Image",      "Buffer",    "Launch", "Copy",    "Batch",
                              "ReadVar",  "SetVar",     "If",         "While",      "Block",     "Bound",  "Variant", "TargetKernels",
                              "Portable", "Provenance", "TestTensor", "TestVector", "Seal",      "Bundle"};

struct Schema {
  std::vector<u8> bytes = file_bytes(BFBS);
  const reflection::Schema* schema = reflection::GetSchema(bytes.data());
  std::map<std::string, char> letters;
  Schema() {
    for (char l = 'A'; const char* n : kNames) letters[n] = l++;
  }
  static std::string last(const std::string& name) { return name.substr(name.rfind('.') + 1); }
  char letter(int object) const { return letters.at(last(schema->objects()->Get(u32(object))->name()->str())); }
  char union_letter(int index) const {  // the first type; the others must follow it
    auto* values = schema->enums()->Get(u32(index))->values();
    char first = letters.at(values->Get(1)->name()->str());
    for (u32 i = 1; i < values->size(); i++) EXPECT_EQ(letters.at(values->Get(i)->name()->str()), first + char(i) - 1);
    return first;
  }
  static char scalar(reflection::BaseType t) {
    switch (t) {
      case reflection::UType:
      case reflection::Bool:
      case reflection::Byte:
      case reflection::UByte: return '1';
      case reflection::Int:
      case reflection::UInt: return '4';
      case reflection::Long:
      case reflection::ULong:
      case reflection::Double: return '8';
      default: return 0;
    }
  }
  std::string fields(const reflection::Object& o) const {
    std::map<int, const reflection::Field*> by_id;
    for (auto* f : *o.fields()) by_id[f->id()] = f;
    std::string s;
    for (auto& [id, f] : by_id) {
      auto base = f->type()->base_type(), element = f->type()->element();
      std::string code;
      if (scalar(base))
        code = scalar(base);
      else if (base == reflection::String)
        code = "s";
      else if (base == reflection::Obj)
        code = std::string("t") + letter(f->type()->index());
      else if (base == reflection::Vector && element == reflection::UType)
        continue;  // goes with its values
      else if (base == reflection::Vector && element == reflection::Union)
        code = std::string("x") + union_letter(f->type()->index());
      else if (base == reflection::Vector && element == reflection::String)
        code = "w";
      else if (base == reflection::Vector && element == reflection::Obj)
        code = std::string("v") + letter(f->type()->index());
      else if (base == reflection::Vector)
        code = scalar(element) == '1' ? "a" : scalar(element) == '4' ? "b" : "c";
      else
        ADD_FAILURE() << "verify.cc has no code for " << f->name()->str();
      if (f->required()) code[0] = char(code[0] - 32);
      s += code;
    }
    return s;
  }
};

TEST(Verify, TablesAreTheSchema) {
  Schema s;
  ASSERT_NE(s.schema, nullptr);
  ASSERT_EQ(tgf::kTableCount, std::size(kNames));
  ASSERT_EQ(s.schema->objects()->size(), std::size(kNames));
  EXPECT_EQ(s.schema->root_table()->name()->str(), "tgf.fb.Bundle");
  EXPECT_EQ(s.schema->file_ident()->str(), "TGB1");
  const char* row = tgf::kTables;
  for (const char* name : kNames) {
    auto* o = s.schema->objects()->LookupByKey((std::string("tgf.fb.") + name).c_str());
    ASSERT_NE(o, nullptr) << name;
    EXPECT_EQ(s.fields(*o), row) << name;
    row += strlen(row) + 1;
  }
}

TEST(Verify, AgreesWithFlatcsVerifier) {
  std::mt19937 random(4);
  int both = 0, none = 0, stricter = 0;
  const char* scale = getenv("TGB_MUTATIONS");
  for (auto make : {control, state, free_size}) {
    BundleDesc d = make();
    d.portable = Portable{{1}, {{0, {2}}}};
    d.provenance.settings = {{"a", "b"}, {"c", "d"}};
    std::string path = write(d, "verify.tgb");
    std::vector<u8> file = file_bytes(path);
    remove(path.c_str());
    tgf::Header h;
    memcpy(&h, file.data(), sizeof h);
    std::vector<u64> aligned(h.meta_bytes / 8 + 2);
    u8* meta = reinterpret_cast<u8*>(aligned.data());
    const u8* intact = file.data() + h.meta_offset;
    memcpy(meta, intact, h.meta_bytes);
    EXPECT_TRUE(tgf::verify_flatbuffer(meta, h.meta_bytes));
    for (int i = 0; i < (scale ? atoi(scale) : 1000) * 20; i++) {
      memcpy(meta, intact, h.meta_bytes);
      size_t size = random() % 50 ? h.meta_bytes : random() % h.meta_bytes;
      for (u32 k = 0, n = 1 + random() % 2; k < n; k++) {
        u8* p = meta + random() % h.meta_bytes;
        u32 kind = random() % 3;
        *p = kind == 0 ? u8(*p ^ (1u << random() % 8)) : kind == 1 ? u8(random()) : u8(*p + random() % 9 - 4);
      }
      flatbuffers::Verifier theirs(meta, size, tgf::kMaxDepth, tgf::kMaxTables);
      bool want = tgf::fb::VerifyBundleBuffer(theirs), got = tgf::verify_flatbuffer(meta, size);
      EXPECT_FALSE(got && !want) << "accepts what flatc's verifier refuses, mutation " << i;
      (got ? both : want ? stricter : none)++;
    }
  }
  EXPECT_GT(both, 1000);
  EXPECT_GT(none, 1000);
  EXPECT_LT(stricter, both / 20)
      << "refuses much of what flatc's verifier accepts";  // alignment of 8-byte elements; unions of unknown type
}

}  // namespace
}  // namespace sample
