// tgb and the example program as a user meets them: outputs, files, and errors of one line with an exit code.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sample.h"

namespace sample {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome shell(const std::string& command, const std::string& dir) {
  std::string line = command + " >" + dir + "/stdout 2>" + dir + "/stderr";
  int status = std::system(line.c_str());
  auto text = [&](const char* name) {
    std::vector<u8> b = file_bytes(dir + "/" + name);
    return std::string(b.begin(), b.end());
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text("stdout"), text("stderr")};
}

class Tgb : public testing::Test {
 protected:
  void SetUp() override {
    dir = temp_path(testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(dir + "/out");
    model = dir + "/model.tgb";
  }
  void TearDown() override { fs::remove_all(dir); }
  Outcome tgb(const std::string& args) { return shell(std::string(TGB) + " " + args, dir); }
  void write_model(const BundleDesc& d) { write_bundle(d, model); }
  void write_file(const std::string& name, const std::string& bytes) {
    FILE* f = fopen((dir + "/" + name).c_str(), "wb");
    fwrite(bytes.data(), 1, bytes.size(), f);
    fclose(f);
  }
  template <class T>
  static std::string raw(std::vector<T> v) {
    return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
  }
  static std::string npy(const std::string& descr, const std::string& shape, const std::string& data, const char* fortran = "False") {
    std::string h = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': (" + shape + "), }";
    while ((10 + h.size() + 1) % 64) h += ' ';
    h += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + char(h.size() & 255) + char(h.size() >> 8) + h + data;
  }
  std::string output(int i) {
    std::vector<u8> b = file_bytes(dir + "/out/" + std::to_string(i) + ".npy");
    return std::string(b.begin(), b.end());
  }
  // One line on stderr that says `words`, nothing on stdout, nothing written.
  void refuses(const std::string& args, const std::string& words, int code = 1) {
    Outcome o = tgb(args);
    EXPECT_EQ(o.code, code) << args << "\n" << o.err;
    EXPECT_EQ(o.out, "") << args;
    EXPECT_NE(o.err.find(words), std::string::npos) << args << "\n" << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_EQ(o.err.rfind("tgb: ", 0), 0u) << o.err;
    EXPECT_TRUE(fs::is_empty(dir + "/out")) << args;
  }
  std::string dir, model;
};

TEST_F(Tgb, RunReadsNpyAndWritesNpy) {
  write_model(square_add(3));
  write_file("x.npy", npy("<f4", "3,", raw<float>({1, 2, 3})));
  for (const char* name : {"x", "0"}) {
    Outcome o = tgb("run " + model + " --input " + name + "=" + dir + "/x.npy --output " + dir + "/out");
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.out.find("input  0 x f32[3] "), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("output 0 y f32[3] "), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("= 1 5 11\n"), std::string::npos) << o.out;
    EXPECT_EQ(output(0), npy("<f4", "3,", raw<float>({1, 5, 11})));
  }
}

TEST_F(Tgb, RunReadsRawAndTensorProto) {
  write_model(square_add(3));
  write_file("x.bin", raw<float>({1, 2, 3}));
  EXPECT_EQ(tgb("run " + model + " --input=x=" + dir + "/x.bin --output " + dir + "/out").code, 0);
  EXPECT_EQ(output(0), npy("<f4", "3,", raw<float>({1, 5, 11})));
  // dims: 3 (field 1), data_type: FLOAT (field 2), name "x" (field 8), raw_data (field 9).
  write_file("raw.pb", std::string("\x08\x03\x10\x01\x42\x01x\x4a\x0c", 9) + raw<float>({2, 2, 2}));
  Outcome o = tgb("run " + model + " --input x=" + dir + "/raw.pb --output " + dir + "/out");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(output(0), npy("<f4", "3,", raw<float>({4, 5, 6})));
  // float_data (field 4), packed, with dims packed as well.
  write_file("packed.pb", std::string("\x0a\x01\x03\x10\x01\x22\x0c", 7) + raw<float>({0, 1, 2}));
  o = tgb("run " + model + " --input x=" + dir + "/packed.pb --output " + dir + "/out");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(output(0), npy("<f4", "3,", raw<float>({0, 2, 6})));
}

// A model of one copy: what goes in comes out, for every dtype.
BundleDesc copy(tgf::Dtype dtype, std::vector<i64> dims) {
  BundleDesc d = empty();
  std::vector<Dim> shape;
  i64 n = 1;
  for (i64 k : dims) shape.push_back(fixed(k)), n *= k;
  d.inputs = {{"x", dtype, shape}}, d.outputs = {{"y", dtype, shape}};
  i64 bytes = tgf::dense_bytes(dtype, n);
  Variant v;
  v.targets = {0};
  v.buffers = {buffer(BufferKind::Input, bytes, 0, {}, dtype), buffer(BufferKind::Output, bytes, 0, {0}, dtype)};
  v.body.commands = {Batch{0, {Copy{0, 0, 1, 0, bytes}}}};
  d.variants = {v};
  return d;
}

TEST_F(Tgb, EveryDtypeGoesThroughNpy) {
  for (u32 i = 0; i < tgf::kDtypes; i++) {
    const tgf::DtypeRow& row = tgf::kDtypeRows[i];
    write_model(copy(tgf::Dtype(i), {5}));
    int width = row.bits < 8 ? 1 : row.bits / 8;
    std::string data;
    for (int k = 0; k < 5 * width; k++)
      data += char(row.bits < 8 ? (k * 7 + 1) & ((1 << row.bits) - 1) : row.cls == tgf::Class::Bool ? k % 2 : k * 17 + 3);
    write_file("x.npy", npy(row.npy, "5,", data));
    Outcome o = tgb("run " + model + " --input x=" + dir + "/x.npy --output " + dir + "/out");
    EXPECT_EQ(o.code, 0) << row.text << ": " << o.err;
    EXPECT_EQ(output(0), npy(row.npy, "5,", data)) << row.text;
  }
}

TEST_F(Tgb, FourBitTensorProtoIsPacked) {
  write_model(copy(tgf::Dtype::I4, {3}));
  // INT4 (22), int32_data (field 5) packed: 0x21 holds 1 and 2, 0x0f holds 15.
  write_file("x.pb", std::string("\x08\x03\x10\x16\x2a\x02\x21\x0f", 8));
  Outcome o = tgb("run " + model + " --input x=" + dir + "/x.pb --output " + dir + "/out");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(output(0), npy("|u1", "3,", std::string("\x01\x02\x0f")));
}

TEST_F(Tgb, ColumnMajorNpyIsTurned) {
  write_model(copy(tgf::Dtype::I16, {2, 3}));
  write_file("x.npy", npy("<i2", "2, 3", raw<i16>({1, 4, 2, 5, 3, 6}), "True"));
  Outcome o = tgb("run " + model + " --input x=" + dir + "/x.npy --output " + dir + "/out");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(output(0), npy("<i2", "2, 3", raw<i16>({1, 2, 3, 4, 5, 6})));
}

TEST_F(Tgb, RandomInputsFollowTheSeed) {
  write_model(square_add(100));
  tgb("run " + model + " --output " + dir + "/out");
  std::string first = output(0);
  tgb("run " + model + " --output " + dir + "/out --seed 0");
  EXPECT_EQ(output(0), first);
  tgb("run " + model + " --output " + dir + "/out --seed 1");
  EXPECT_NE(output(0), first);
}

TEST_F(Tgb, FreeSizesComeFromFilesOrVar) {
  write_model(free_size());
  EXPECT_NE(tgb("run " + model + " --var N=6").out.find("output 0 y f32[6]"), std::string::npos);
  EXPECT_NE(tgb("run " + model).out.find("output 0 y f32[64]"), std::string::npos);
  write_file("x.npy", npy("<f4", "4,", raw<float>({1, 2, 3, 4})));
  EXPECT_NE(tgb("run " + model + " --input x=" + dir + "/x.npy").out.find("output 0 y f32[4] = 1 5 11 19"), std::string::npos);
  refuses("run " + model + " --var N=7", "allowed are multiples of 2 from 2 to 64");
  refuses("run " + model + " --var M=7", "has no free size as in --var M=7");
}

TEST_F(Tgb, BenchPrintsOneJsonObject) {
  write_model(square_add(1000));
  Outcome o = tgb("bench " + model + " --runs 5 --json");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1);
  EXPECT_EQ(o.out.rfind("{\"load_ms\": ", 0), 0u);
  for (const char* key :
       {"first_ms", "median_ms", "p90_ms", "peak_rss_bytes", "\"kernels\": [{\"name\": \"", "\"ms\": ", "\"gflops\": ", "\"gbs\": "})
    EXPECT_NE(o.out.find(key), std::string::npos) << key;
  EXPECT_EQ(tgb("bench " + model + " --runs 3").code, 0);
}

TEST_F(Tgb, InfoCheckSelftest) {
  BundleDesc d = square_add(2);
  d.tests.push_back(
      {"t", {{Bytes::own({0, 0, 0x80, 0x3f, 0, 0, 0, 0}), {2}}}, {{Bytes::own({0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f}), {2}}}, 0, 0});
  write_model(d);
  Outcome o = tgb("info " + model);
  EXPECT_EQ(o.code, 0);
  for (const char* words : {"input   0 x f32[2]\n", "output  0 y f32[2]\n", "made by a test", "2 kernels", "runs here\n"})
    EXPECT_NE(o.out.find(words), std::string::npos) << o.out;
  EXPECT_EQ(tgb("check " + model).code, 0);
  EXPECT_EQ(tgb("selftest " + model).code, 0);
}

TEST_F(Tgb, ErrorsAreOneLineAndLeaveNothing) {
  write_model(square_add(3));
  std::string out = " --output " + dir + "/out";
  write_file("x.npy", npy("<f4", "3,", raw<float>({1, 2, 3})));
  write_file("wide.npy", npy("<f8", "3,", raw<double>({1, 2, 3})));
  write_file("four.npy", npy("<f4", "4,", raw<float>({1, 2, 3, 4})));
  write_file("short.npy", npy("<f4", "3,", raw<float>({1, 2})));
  write_file("x.txt", "1 2 3");
  write_file("x.bin", "123");
  write_file("x.pb", "not a proto");
  refuses("run /nowhere/model.tgb" + out, "/nowhere/model.tgb: No such file or directory");
  refuses("run " + dir + "/x.npy" + out, "is not a .tgb bundle");
  refuses("run " + model + " --output " + dir + "/missing", "make the folder first");
  refuses("run " + model + " --output " + dir + "/x.npy", "is not a folder");
  refuses("run " + model + out + " --input z=" + dir + "/x.npy", "has no input 'z'; it has: x");
  refuses("run " + model + out + " --input 1=" + dir + "/x.npy", "has no input '1'");
  refuses("run " + model + out + " --input x=" + dir + "/none.npy", "none.npy: No such file or directory");
  refuses("run " + model + out + " --input x=" + dir + "/wide.npy", "input 'x' is f64, expected f32");
  refuses("run " + model + out + " --input x=" + dir + "/four.npy", "input 'x' has shape [4], expected [3]");
  refuses("run " + model + out + " --input x=" + dir + "/short.npy", "has 8 bytes of data, its shape needs 12");
  refuses("run " + model + out + " --input x=" + dir + "/x.txt", "unknown kind of file");
  refuses("run " + model + out + " --input x=" + dir + "/x.bin", "has 3 bytes, expected 12");
  refuses("run " + model + out + " --input x=" + dir + "/x.pb", "is not an ONNX TensorProto");
  refuses("run " + model + out + " --input x", "must be NAME_OR_INDEX=FILE", 2);
  refuses("run " + model + out + " --inptu x=y", "unknown option '--inptu'", 2);
  refuses("run" + out, "no MODEL.tgb given", 2);
  refuses("rnu " + model, "unknown verb 'rnu'", 2);
  refuses("run " + model + out + " --device CPU:CLNG", "did you mean: 'CLANG'");
  refuses("replay " + model, "not built yet", 2);
  refuses("measure x", "not built yet", 2);
  refuses("agent", "not built yet", 2);
  refuses("selftest " + model, "has no test vectors");
  std::vector<u8> bytes = file_bytes(model);
  write_file("cut.tgb", std::string(bytes.begin(), bytes.begin() + long(bytes.size()) - 100));
  refuses("run " + dir + "/cut.tgb" + out, "truncated or damaged");
  BundleDesc d = square_add(3);
  d.targets[0].needs.push_back("avx9000");
  write_model(d);
  refuses("run " + model + out, "this one lacks avx9000");
  setenv("JIT", "7", 1);
  write_model(square_add(3));
  refuses("run " + model + out, "JIT=7: must be a whole number from 0 to 2");
  unsetenv("JIT");
}

TEST_F(Tgb, TheExampleProgramEmbedsTheLibrary) {
  write_model(square_add(3));
  Outcome o = shell(std::string(EMBED) + " " + model, dir);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "y: f32, 12 bytes, first value 1\n");
  write_file("x.bin", raw<float>({5, 2, 3}));
  EXPECT_EQ(shell(std::string(EMBED) + " " + model + " " + dir + "/x.bin", dir).out, "y: f32, 12 bytes, first value 25\n");
  o = shell(std::string(EMBED) + " /nowhere.tgb", dir);
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(o.err, "embed: /nowhere.tgb: No such file or directory\n");
}

}  // namespace
}  // namespace sample
