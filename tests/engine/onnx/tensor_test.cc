#include "engine/onnx/tensor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/tensor/float16.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::onnx {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

proto::TensorProto Proto(int type, std::vector<int64_t> dims) {
  proto::TensorProto tensor;
  tensor.set_data_type(type);
  for (int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

TEST(OnnxTensor, RawFloats_AreRead) {
  auto proto = Proto(proto::TensorProto::FLOAT, {2});
  const float values[] = {1.5f, -2.0f};
  proto.set_raw_data(values, sizeof(values));
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromOnnx(proto));
  EXPECT_EQ(tensor.flat<float>()[1], -2.0f);
}

TEST(OnnxTensor, TypedFields_AreReadInEveryType) {
  for (const int type : {proto::TensorProto::INT8, proto::TensorProto::UINT8, proto::TensorProto::INT16,
                         proto::TensorProto::UINT16, proto::TensorProto::INT32, proto::TensorProto::BOOL}) {
    auto proto = Proto(type, {2});
    proto.add_int32_data(0);
    proto.add_int32_data(1);
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromOnnx(proto));
    EXPECT_NE(static_cast<int>(tensor.data()[SizeOf(tensor.dtype())]), 0) << type;
  }
  auto unsigned_proto = Proto(proto::TensorProto::UINT32, {1});
  unsigned_proto.add_uint64_data(4'000'000'000u);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromOnnx(unsigned_proto));
  EXPECT_EQ(tensor.flat<uint32_t>()[0], 4'000'000'000u);
}

TEST(OnnxTensor, Float16InInt32Data_IsItsBits) {
  auto proto = Proto(proto::TensorProto::FLOAT16, {1});
  proto.add_int32_data(0x3C00);
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromOnnx(proto));
  EXPECT_EQ(static_cast<float>(tensor.flat<float16>()[0]), 1.0f);
}

TEST(OnnxTensor, ValueBeyondItsType_IsRefused) {
  auto proto = Proto(proto::TensorProto::INT8, {1});
  proto.add_int32_data(200);
  EXPECT_THAT(TensorFromOnnx(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("200, which int8")));
}

TEST(OnnxTensor, FewerValuesThanTheShape_AreRefusedBeforeMemoryIsTaken) {
  auto proto = Proto(proto::TensorProto::FLOAT, {1 << 20, 1 << 19});
  proto.add_float_data(1);
  EXPECT_THAT(TensorFromOnnx(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 values")));
  proto.clear_float_data();
  proto.set_raw_data("abcd");
  EXPECT_THAT(TensorFromOnnx(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 are given")));
}

TEST(OnnxTensor, ImpossibleShape_IsRefused) {
  EXPECT_THAT(TensorFromOnnx(Proto(1, {-1})), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(TensorFromOnnx(Proto(1, {INT64_MAX, INT64_MAX})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^40")));
}

TEST(OnnxTensor, BoolThatIsNeither0Nor1_IsRefused) {
  auto proto = Proto(proto::TensorProto::BOOL, {1});
  proto.set_raw_data("\x02");
  EXPECT_THAT(TensorFromOnnx(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a bool")));
}

TEST(OnnxTensor, TypeThatIsMissing_IsNamed) {
  EXPECT_THAT(TensorFromOnnx(Proto(proto::TensorProto::FLOAT8E5M2, {0})),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("FLOAT8E5M2")));
  EXPECT_THAT(TensorFromOnnx(Proto(99, {0})), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("99")));
}

TEST(OnnxTensor, ExternalData_AreReadBesideTheModelOnly) {
  const testing::TempFolder temp;
  temp.Write("weights.bin", std::string("....\0\0\x80\x3f", 8));
  const std::string& folder = temp.path();
  auto proto = Proto(proto::TensorProto::FLOAT, {1});
  proto.set_data_location(proto::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const char* value) {
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", "weights.bin");
  add("offset", "4");
  ASSERT_OK_AND_ASSIGN(const Tensor tensor, TensorFromOnnx(proto, {folder}));
  EXPECT_EQ(tensor.flat<float>()[0], 1.0f);
  EXPECT_THAT(TensorFromOnnx(proto), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("another file")));

  proto.mutable_external_data(1)->set_value("6");
  EXPECT_THAT(TensorFromOnnx(proto, {folder}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("end beyond")));
  proto.mutable_external_data(1)->set_value("-1");
  EXPECT_THAT(TensorFromOnnx(proto, {folder}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset")));
  proto.mutable_external_data(1)->set_value("4");
  for (const char* escape : {"../weights.bin", "/etc/hostname", "..", "a/b", ""}) {
    proto.mutable_external_data(0)->set_value(escape);
    EXPECT_THAT(TensorFromOnnx(proto, {folder}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no file name beside")))
        << escape;
  }
}

}  // namespace
}  // namespace rivulet::onnx
