#include "ir_test.h"

using namespace tg;

namespace {
V numbers(const Values& x) {
  V r;
  for (i64 i = 0; i < x.elems(); i++) r.push_back(x.number(i));
  return r;
}
V decoded(Kind k, std::vector<u8> bytes, i64 n) { return numbers(decode(k, {n}, bytes)); }
f64 value(Kind k, u8 b) { return decoded(k, {b}, 1)[0]; }
u8 code(Kind k, f64 x) { return encode(values(k, {1}, V({x})))[0]; }
}  // namespace

TEST(Decode, IntegersAreLittleEndian) {
  EXPECT_EQ(decoded(Kind::I16, {0xff, 0xff, 0x01, 0x02}, 2), V({-1, 513}));
  EXPECT_EQ(decoded(Kind::U16, {0xff, 0xff}, 1), V({65535}));
  EXPECT_EQ(decoded(Kind::U64, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1), V({18446744073709551616.0}));
}
TEST(Decode, FirstElementOfAPackedByteIsLow) {
  EXPECT_EQ(decoded(Kind::I4, {0x8f, 0x07}, 3), V({-1, -8, 7}));
  EXPECT_EQ(decoded(Kind::U4, {0x8f, 0x07}, 3), V({15, 8, 7}));
  EXPECT_EQ(decoded(Kind::I2, {0b11100100}, 4), V({0, 1, -2, -1}));
  EXPECT_EQ(decoded(Kind::U2, {0b11100100}, 4), V({0, 1, 2, 3}));
  EXPECT_EQ(decoded(Kind::F4E2M1, {0x72, 0x09}, 3), V({1, 6, -0.5}));
}
TEST(Decode, HalfAndBfloat) {
  EXPECT_EQ(decoded(Kind::F16, {0x00, 0x3c, 0x01, 0x00, 0xff, 0x7b, 0x00, 0xfc}, 4), V({1, 0x1p-24, 65504, -kInf}));
  EXPECT_EQ(decoded(Kind::BF16, {0x80, 0x3f, 0x01, 0x00, 0x7f, 0x7f}, 3), V({1, 0x1p-133, 0x1.fep127}));
}
// Values of the table in https://onnx.ai/onnx/technical/float8.html
TEST(Decode, EightBitFloats) {
  EXPECT_EQ(value(Kind::F8E4M3FN, 0x7e), 448);
  EXPECT_EQ(value(Kind::F8E4M3FN, 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(value(Kind::F8E4M3FN, 0x7f)));
  EXPECT_EQ(value(Kind::F8E4M3FNUZ, 0x7f), 240);
  EXPECT_EQ(value(Kind::F8E4M3FNUZ, 0x01), 0x1p-10);
  EXPECT_TRUE(std::isnan(value(Kind::F8E4M3FNUZ, 0x80)));
  EXPECT_EQ(value(Kind::F8E5M2, 0x7b), 57344);
  EXPECT_EQ(value(Kind::F8E5M2, 0xfc), -kInf);
  EXPECT_EQ(value(Kind::F8E5M2, 0x01), 0x1p-16);
  EXPECT_EQ(value(Kind::F8E5M2FNUZ, 0xff), -57344);
  EXPECT_EQ(value(Kind::F8E5M2FNUZ, 0x01), 0x1p-17);
  EXPECT_EQ(value(Kind::F8E8M0, 0x7f), 1);
  EXPECT_EQ(value(Kind::F8E8M0, 0x00), 0x1p-127);
  EXPECT_TRUE(std::isnan(value(Kind::F8E8M0, 0xff)));
}
// Codes from ml_dtypes and onnx.numpy_helper.saturate_cast, to_float8e8m0.
TEST(Encode, EightBitFloatsRoundToEvenAndSaturate) {
  EXPECT_EQ(code(Kind::F8E4M3FN, 1e9), 0x7e);
  EXPECT_EQ(code(Kind::F8E4M3FN, -kInf), 0xfe);
  EXPECT_EQ(code(Kind::F8E4M3FN, 249), 0x78);
  EXPECT_EQ(code(Kind::F8E4M3FN, -1e-9), 0x80);
  EXPECT_EQ(code(Kind::F8E4M3FN, kNaN), 0x7f);
  EXPECT_EQ(code(Kind::F8E4M3FNUZ, 1e9), 0x7f);
  EXPECT_EQ(code(Kind::F8E4M3FNUZ, -1e-9), 0x00);
  EXPECT_EQ(code(Kind::F8E4M3FNUZ, kNaN), 0x80);
  EXPECT_EQ(code(Kind::F8E5M2, 464), 0x5f);
  EXPECT_EQ(code(Kind::F8E5M2, 1.25), 0x3d);
  EXPECT_EQ(code(Kind::F8E5M2, kInf), 0x7b);
  EXPECT_EQ(code(Kind::F8E5M2FNUZ, 500), 0x64);
  EXPECT_EQ(code(Kind::F4E2M1, 5), 0x06);
  EXPECT_EQ(code(Kind::F4E2M1, 0.25), 0x00);
  EXPECT_EQ(code(Kind::F4E2M1, -100), 0x0f);
  EXPECT_EQ(code(Kind::F8E8M0, 3), 0x81);
  EXPECT_EQ(code(Kind::F8E8M0, 4), 0x81);
  EXPECT_EQ(code(Kind::F8E8M0, 0), 0x00);
}
TEST(Encode, EveryCodeComesBack) {
  for (Kind k : {Kind::F8E4M3FN, Kind::F8E4M3FNUZ, Kind::F8E5M2, Kind::F8E5M2FNUZ, Kind::F8E8M0, Kind::I8, Kind::U8, Kind::I4, Kind::U4, Kind::I2, Kind::U2, Kind::F4E2M1})
    for (int b = 0; b < 256; b++) {
      std::vector<u8> bytes{u8(b)};
      if (std::isnan(value(k, u8(b)))) continue;
      EXPECT_EQ(encode(decode(k, {8 / bits(k)}, bytes)), bytes) << name(k) << ' ' << b;
    }
  for (Kind k : {Kind::F16, Kind::BF16})
    for (int b = 0; b < 65536; b++) {
      std::vector<u8> bytes{u8(b), u8(b >> 8)};
      Values x = decode(k, {1}, bytes);
      if (std::isnan(x.number(0))) continue;
      EXPECT_EQ(encode(x), bytes) << name(k) << ' ' << b;
    }
}
TEST(Decode, WrongByteCountIsAnError) {
  try {
    decode(Kind::F32, {2}, std::vector<u8>(7));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a tensor of 2 f32 elements takes 8 bytes, got 7");
  }
}
