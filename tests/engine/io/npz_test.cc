#include "engine/io/npz.h"

#include <zlib.h>

#include <filesystem>
#include <random>

#include "engine/io/npy.h"
#include "engine/io/zip.h"
#include "engine/tensor/float16.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpzTest : public testing::FolderTest {
 protected:
  std::string Written(std::span<const std::pair<std::string, TensorView>> arrays) {
    EXPECT_OK(WriteNpz(FileSystem::Default(), Path("a.npz"), arrays));
    return FileSystem::Default().ReadAll(Path("a.npz")).value();
  }
};

// One deflated member, as numpy.savez_compressed writes it; the sizes it states can be false.
std::string Deflated(const std::string& name, const std::string& content, uint64_t stated_size) {
  std::string packed(compressBound(content.size()), '\0');
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed = packed.substr(0, stream.total_out);
  deflateEnd(&stream);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  std::string bytes;
  const auto store = [&](uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  store(0x04034b50, 4), store(20, 2), store(0, 2), store(8, 2), store(0, 4), store(crc, 4);
  store(packed.size(), 4), store(stated_size, 4), store(name.size(), 2), store(0, 2);
  bytes += name + packed;
  const uint64_t directory = bytes.size();
  store(0x02014b50, 4), store(20, 2), store(20, 2), store(0, 2), store(8, 2), store(0, 4), store(crc, 4);
  store(packed.size(), 4), store(stated_size, 4), store(name.size(), 2), store(0, 2), store(0, 2), store(0, 2);
  store(0, 2), store(0, 4), store(0, 4);
  bytes += name;
  const uint64_t end = bytes.size();
  store(0x06054b50, 4), store(0, 4), store(1, 2), store(1, 2), store(end - directory, 4), store(directory, 4);
  store(0, 2);
  return bytes;
}

TEST_F(NpzTest, Arrays_ComeBackByNameAndInOrder) {
  const Tensor kernel = Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), step = Tensor::Scalar<int64_t>(7),
               none(DType::kFloat32, {0});
  const std::vector<std::pair<std::string, TensorView>> arrays = {
      {"dense/kernel", kernel.view()}, {"step", step.view()}, {"none", none.view()}};
  const std::string bytes = Written(arrays);
  EXPECT_EQ(bytes, Written(arrays));  // no clock in it
  ASSERT_OK_AND_ASSIGN(const auto read, ParseNpz(bytes));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].first, "dense/kernel");
  EXPECT_THAT(read[0].second.flat<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(read[1].second.flat<int64_t>()[0], 7);
  EXPECT_EQ(read[2].second.shape(), Shape{0});
}

// NumPy has no bfloat16: beside arrays of other types it is widened, and they are not.
TEST_F(NpzTest, BFloat16_IsWrittenAsFloat32) {
  const Tensor half = Tensor::Of<bfloat16>({2}, {bfloat16(1.5f), bfloat16(-2.0f)}), whole = Tensor::Scalar<int64_t>(7);
  const std::vector<std::pair<std::string, TensorView>> arrays = {{"half", half.view()}, {"whole", whole.view()}};
  ASSERT_OK_AND_ASSIGN(const auto read, ParseNpz(Written(arrays)));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_THAT(read[0].second.flat<float>(), ElementsAre(1.5f, -2.0f));
  EXPECT_EQ(read[1].second.dtype(), DType::kInt64);
}

TEST_F(NpzTest, Compressed_IsReadAndABombIsNot) {
  Tensor ones(DType::kUint8, {100000});
  ASSERT_OK_AND_ASSIGN(const std::string array, EncodeNpy(ones.view()));
  ASSERT_OK_AND_ASSIGN(const auto read, ParseNpz(Deflated("x.npy", array, array.size())));
  EXPECT_EQ(read[0].second.shape(), Shape{100000});
  EXPECT_THAT(ParseNpz(Deflated("x.npy", array, array.size()), 1000).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("array 'x'")));
  EXPECT_THAT(ParseNpz(Deflated("x.npy", array, 0xfffffff0)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("stored in")));
  EXPECT_THAT(ParseNpz(Deflated("x.npy", array, array.size() + 1)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut off or damaged")));
  EXPECT_THAT(ParseNpz(Deflated("x.txt", array, array.size())).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no .npy array")));
}

// 1.9 MB became 3.9 GB.
TEST_F(NpzTest, CompressedArraysBeyondTheirBound_AreRefusedBeforeTheyAreUnpacked) {
  std::string array = *NpyPreamble(DType::kUint8, Shape{int64_t{1} << 21});
  array.resize(array.size() + (size_t{1} << 21));
  const std::string file = Deflated("x.npy", array, array.size());
  EXPECT_OK(ParseNpz(file).status());
  // A header that promises what the archive does not have, and the other way round.
  std::string less = *NpyPreamble(DType::kUint8, Shape{int64_t{1} << 20});
  less.resize(array.size());
  EXPECT_THAT(ParseNpz(Deflated("x.npy", less, less.size())).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the archive has 2097280 bytes for it")));
  // Little more than a megabyte that DEFLATE could have made of this much.
  std::mt19937 random(1);
  std::string packed(1'200'000, ' ');
  for (char& c : packed) c = static_cast<char>(random());
  EXPECT_THAT(ParseNpz(Deflated("x.npy", packed, 1'200'000'000)).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("numpy.savez")));
}

TEST_F(NpzTest, MemberThatItsHeaderDescribesInAnotherWay_IsRefused) {
  const Tensor x = Tensor::Of<float>({2}, {1, 2});
  const std::string good = Written(std::vector<std::pair<std::string, TensorView>>{{"x", x.view()}});
  for (const size_t at : {14, 18, 22, 30}) {  // checksum, stored size, size, name: of the member's own header
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_THAT(ParseNpz(bytes).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("in another"))) << at;
  }
}

TEST_F(NpzTest, WrongNamesAndTypes_AreRefusedAndNothingIsWritten) {
  const Tensor x = Tensor::Scalar<float>(1), list(DType::kVariant, {2});
  FileSystem& fs = FileSystem::Default();
  EXPECT_THAT(
      WriteNpz(fs, Path("b.npz"), std::vector<std::pair<std::string, TensorView>>{{"x", x.view()}, {"x", x.view()}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x' twice")));
  EXPECT_THAT(WriteNpz(fs, Path("b.npz"), std::vector<std::pair<std::string, TensorView>>{{"h", list.view()}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("array 'h'")));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(NpzTest, DamagedBytes_AreReadOrRefused) {
  const Tensor a = Tensor::Of<float>({2}, {1, 2}), b = Tensor::Scalar<int32_t>(3);
  const std::string good = Written(std::vector<std::pair<std::string, TensorView>>{{"a", a.view()}, {"b", b.view()}});
  EXPECT_THAT(ParseNpz(good.substr(0, good.size() - 1)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut off")));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % 8 == 0 ? random() % good.size() : good.size());
    for (unsigned changes = 1 + random() % 3; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += !ParseNpz(bytes).ok();
  }
  EXPECT_GT(refused, 10000);  // nearly every byte is covered by a checksum or a rule; dates are not
}

}  // namespace
}  // namespace rivulet
