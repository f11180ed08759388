#include "engine/io/npy.h"

#include <random>

#include "engine/tensor/float16.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As numpy.save writes it, with any literal.
std::string NpyFile(const std::string& literal, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  const size_t length_bytes = version == 1 ? 2 : 4;
  for (size_t i = 0; i < length_bytes; ++i) bytes += static_cast<char>(literal.size() >> (8 * i));
  return bytes + literal + data;
}

std::string BytesOf(std::initializer_list<int16_t> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * 2);
}

TEST(NpyTest, EveryTypeAndRank_ComesBack) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt8, DType::kInt16, DType::kInt32,
                      DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64, DType::kBool}) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{0, 4}, Shape{1, 2, 1, 3}}) {
      Tensor tensor(dtype, shape);
      for (size_t i = 0; i < tensor.bytes(); ++i) tensor.data()[i] = std::byte(i % 2);
      ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeNpy(tensor.view()));
      EXPECT_EQ((bytes.size() - tensor.bytes()) % 64, 0u);
      ASSERT_OK_AND_ASSIGN(const Tensor back, DecodeNpy(bytes));
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), shape);
      EXPECT_TRUE(tensor.bytes() == 0 || std::memcmp(back.data(), tensor.data(), tensor.bytes()) == 0);
    }
  }
}

TEST(NpyTest, ColumnMajorAndForeignByteOrder_AreTurned) {
  const std::string columns =
      NpyFile("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", BytesOf({1, 4, 2, 5, 3, 6}));
  ASSERT_OK_AND_ASSIGN(const Tensor rows, DecodeNpy(columns));
  EXPECT_THAT(rows.flat<int16_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  const std::string big =
      NpyFile("{'shape': (2,), 'descr': \">i2\", 'fortran_order': False}", std::string("\0\1\1\0", 4), 2);
  ASSERT_OK_AND_ASSIGN(const Tensor swapped, DecodeNpy(big));
  EXPECT_THAT(swapped.flat<int16_t>(), ElementsAre(1, 256));
}

TEST(NpyTest, WhatNumpyWrites_IsWhatWeWrite) {
  ASSERT_OK_AND_ASSIGN(const std::string ours, NpyPreamble(DType::kFloat32, Shape{3, 4}));
  EXPECT_THAT(ours, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"));
  EXPECT_EQ(ours.size(), 128u);
  ASSERT_OK_AND_ASSIGN(const std::string vector, NpyPreamble(DType::kBool, Shape{3}));
  EXPECT_THAT(vector, HasSubstr("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }"));
  ASSERT_OK_AND_ASSIGN(const std::string scalar, NpyPreamble(DType::kInt64, Shape{}));
  EXPECT_THAT(scalar, HasSubstr("'shape': (), }"));
}

TEST(NpyTest, WhatIsNoArray_IsRefusedByName) {
  using absl::StatusCode;
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_THAT(DecodeNpy("PK"), StatusIs(StatusCode::kDataLoss, HasSubstr("NUMPY")));
  EXPECT_THAT(DecodeNpy(NpyFile(good, "1234567")), StatusIs(StatusCode::kDataLoss, HasSubstr("7 bytes of data")));
  EXPECT_THAT(DecodeNpy(NpyFile(good, "", 9)), StatusIs(StatusCode::kUnimplemented, HasSubstr("version 9")));
  EXPECT_THAT(DecodeNpy(NpyFile("{'descr': '<U4', 'fortran_order': False, 'shape': (), }", "")),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("'<U4'")));
  EXPECT_THAT(DecodeNpy(NpyFile("{'descr': '<f 4~\x7f\t', 'fortran_order': False, 'shape': (), }", "")),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("'<f 4~?\?'")));
  EXPECT_THAT(
      DecodeNpy(NpyFile("{'descr': '" + std::string(50, 'a') + "', 'fortran_order': False, 'shape': (), }", "")),
      StatusIs(StatusCode::kUnimplemented, HasSubstr("'" + std::string(40, 'a') + "'")));
  EXPECT_THAT(DecodeNpy(NpyFile("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "")),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("records")));
  for (const char* literal :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999, 9999999, 9999999)}"})
    EXPECT_THAT(DecodeNpy(NpyFile(literal, "12345678")), StatusIs(StatusCode::kDataLoss, HasSubstr(".npy"))) << literal;
  EXPECT_THAT(NpyPreamble(DType::kBFloat16, Shape{1}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("bfloat16")));
}

TEST(NpyTest, BFloat16_IsWrittenAsFloat32) {
  const Tensor tensor = Tensor::Of<bfloat16>({2}, {bfloat16(1.5f), bfloat16(-2.0f)});
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeNpy(tensor.view()));
  ASSERT_OK_AND_ASSIGN(const Tensor again, DecodeNpy(bytes));
  EXPECT_THAT(again.flat<float>(), ElementsAre(1.5f, -2.0f));
}

TEST(NpyTest, EveryPrefix_IsRefused) {
  const std::string whole = EncodeNpy(Tensor::Of<int16_t>({2}, {1, 2}).view()).value();
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(DecodeNpy(whole.substr(0, length)), StatusIs(absl::StatusCode::kDataLoss)) << length;
  EXPECT_THAT(DecodeNpy(whole + "x"), StatusIs(absl::StatusCode::kDataLoss));
}

// Version 2 has a length of four bytes where version 1 has two.
TEST(NpyTest, SecondVersionCutInItsLength_IsRefused) {
  const std::string head("\x93NUMPY\x02\x00\x10\x00\x00\x00", 12);
  for (const size_t bytes : {size_t{10}, size_t{11}}) {
    EXPECT_THAT(DecodeNpy(head.substr(0, bytes)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("within its first 12 bytes")));
  }
}

TEST(NpyTest, DamagedBytes_AreReadOrRefused) {
  std::mt19937 random(1);
  const std::string good = NpyFile("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", "12345678");
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % 4 == 0 ? random() % good.size() : good.size());
    for (unsigned changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)DecodeNpy(bytes).ok();
  }
}

}  // namespace
}  // namespace rivulet
