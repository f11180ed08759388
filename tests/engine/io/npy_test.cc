#include "engine/io/npy.h"

#include "engine/tensor/float16.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As numpy.lib.format.write_array(f, numpy.array([[1, 2, 3], [4, 5, 6]], "<i2")) writes it.
std::string NumpysOwn() {
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(117, ' ');
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header + "\n";
  for (char i = 1; i <= 6; ++i) bytes += std::string({i, '\0'});
  return bytes;
}

TEST(NpyTest, FileOfNumpy_IsRead) {
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, DecodeNpy(NumpysOwn()));
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_THAT(tensor.flat<int16_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, Written_HasNumpysHeaderAtAMultipleOf64) {
  const Tensor vector = Tensor::Of<float>({3}, {1, 2, 3});
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeNpy(vector.view()));
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"));
  EXPECT_EQ(bytes.size(), 128u + 12u);
  EXPECT_EQ(bytes[127], '\n');
}

TEST(NpyTest, EveryTypeAndRank_ComesBack) {
  for (const Tensor& tensor :
       {Tensor::Scalar<double>(0.1), Tensor::Of<int64_t>({2, 1, 2}, {-1, 2, 3, 4}),
        Tensor::Of<bool>({2}, {true, false}), Tensor::Of<uint8_t>({0, 3}, {}), Tensor::Of<float>({1}, {-0.0f})}) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeNpy(tensor.view()));
    ASSERT_OK_AND_ASSIGN(const Tensor again, DecodeNpy(bytes));
    EXPECT_EQ(again.dtype(), tensor.dtype());
    EXPECT_EQ(again.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(again.data(), tensor.data(), tensor.bytes()), 0);
  }
}

TEST(NpyTest, BFloat16_IsWrittenAsFloat32) {
  const Tensor tensor = Tensor::Of<bfloat16>({2}, {bfloat16(1.5f), bfloat16(-2.0f)});
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeNpy(tensor.view()));
  ASSERT_OK_AND_ASSIGN(const Tensor again, DecodeNpy(bytes));
  EXPECT_THAT(again.flat<float>(), ElementsAre(1.5f, -2.0f));
}

TEST(NpyTest, EveryPrefix_IsRefused) {
  const std::string whole = NumpysOwn();
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(DecodeNpy(whole.substr(0, length)).ok()) << length;
  EXPECT_THAT(DecodeNpy(whole + "x"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("has 12 bytes, but 13 follow")));
}

TEST(NpyTest, HeadersThatAreNot_AreRefusedBySentence) {
  const auto with = [](std::string_view old, std::string_view replacement) {
    std::string bytes = NumpysOwn();
    bytes.replace(bytes.find(old), old.size(), replacement);
    return DecodeNpy(bytes).status();
  };
  EXPECT_THAT(with("'<i2'", "'>i2'"), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("type is '>i2'")));
  EXPECT_THAT(with("'<i2'", "'|O2'"), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("type is '|O2'")));
  EXPECT_THAT(with("False,", "True, "), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("ascontiguousarray")));
  EXPECT_THAT(with("'shape'", "'shapf'"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not NumPy's")));
  EXPECT_THAT(with("(2, 3)", "(-2,3)"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not NumPy's")));
  EXPECT_THAT(with("(2, 3), }                     ", "(3000000000, 3000000000000), }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
}

}  // namespace
}  // namespace rivulet
