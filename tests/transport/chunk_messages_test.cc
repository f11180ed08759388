#include "federated/transport/chunk_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/crc32c.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

const BytesHolder kCopied = nullptr;

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string MarkedBytes(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 37 + i / 251);
  return text;
}

std::string Joint(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string all;
  for (const grpc::Slice& slice : slices) all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return all;
}

std::string Joint(const ArrivedBytes& bytes) {
  std::string all;
  for (const auto piece : bytes.pieces()) all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  EXPECT_EQ(std::ssize(all), bytes.size());
  return all;
}

// `bytes` as a connection may cut them: every `step` bytes.
grpc::ByteBuffer InSlices(std::string_view bytes, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += step) {
    slices.emplace_back(bytes.data() + at, std::min(step, bytes.size() - at));
  }
  return {slices.data(), slices.size()};
}

rpc::ChunkProto DownloadMessage(int64_t total_bytes, const std::string& data) {
  rpc::ChunkProto message;
  message.set_total_bytes(total_bytes);
  message.set_data(data);
  message.set_crc(Crc32c(data));
  return message;
}

rpc::SubmitMessageProto ChunkMessage(const std::string& data) {
  rpc::SubmitMessageProto message;
  message.set_chunk(data);
  return message;
}

TEST(ChunkMessagesTest, Sent_AreThoseOfProtobufToTheByte) {
  for (const size_t size : {0, 1, 127, 128, 20'000, 300'000}) {
    const std::string data = MarkedBytes(size);
    const auto held = std::make_shared<int>();  // `data` stays without it
    for (const int64_t total : {int64_t{0}, int64_t{127}, int64_t{665'348'000'000}}) {
      const std::string sent = DownloadMessage(total, data).SerializeAsString();
      EXPECT_EQ(Joint(DownloadChunk(total, AsBytes(data), kCopied)), sent) << size;
      EXPECT_EQ(Joint(DownloadChunk(total, AsBytes(data), held)), sent) << size;
    }
    EXPECT_EQ(Joint(UploadChunk(AsBytes(data), kCopied)), ChunkMessage(data).SerializeAsString()) << size;
    EXPECT_EQ(Joint(UploadChunk(AsBytes(data), held)), ChunkMessage(data).SerializeAsString()) << size;
  }
}

TEST(ChunkMessagesTest, HeldBytes_AreSentFromWhereTheyLieAndLetGoWithTheMessage) {
  auto data = std::make_shared<const std::string>(MarkedBytes(300'000));
  const std::weak_ptr<const std::string> there = data;
  for (const auto& make : {std::function([&] { return DownloadChunk(9, AsBytes(*data), data); }),
                           std::function([&] { return UploadChunk(AsBytes(*data), data); })}) {
    const grpc::ByteBuffer message = make();
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(message.Dump(&slices).ok());
    const auto lies_there = [&](const grpc::Slice& slice) {
      return static_cast<const void*>(slice.begin()) == data->data() && slice.size() == data->size();
    };
    EXPECT_EQ(std::ranges::count_if(slices, lies_there), 1);
    EXPECT_EQ(data.use_count(), 2);
  }
  EXPECT_EQ(data.use_count(), 1);
  grpc::ByteBuffer last = UploadChunk(AsBytes(*data), data);
  data.reset();
  EXPECT_FALSE(there.expired());
  last.Clear();
  EXPECT_TRUE(there.expired());
}

TEST(ArrivedDownloadTest, CutAnywhere_HoldsWhatWasSent) {
  for (const size_t size : {0, 1, 200}) {
    const std::string data = MarkedBytes(size);
    for (const int64_t total : {0, 70'000}) {
      const std::string sent = DownloadMessage(total, data).SerializeAsString();
      for (size_t step = 1; step <= sent.size() + 1; ++step) {
        grpc::ByteBuffer buffer = InSlices(sent, step);
        ArrivedDownload arrived;
        ASSERT_OK(arrived.Take(buffer));
        EXPECT_EQ(arrived.total_bytes, total);
        EXPECT_EQ(arrived.crc, Crc32c(data));
        EXPECT_EQ(arrived.data.Crc(), Crc32c(data));
        EXPECT_EQ(Joint(arrived.data), data);
        EXPECT_FALSE(buffer.Valid());
      }
    }
  }
}

// A message may have its fields in any order, more than once, and others that nobody here knows.
TEST(ArrivedDownloadTest, OtherwiseWritten_IsReadAsProtobufDoes) {
  const std::string data = DownloadMessage(9, "first").SerializeAsString(),
                    more = DownloadMessage(0, "second").SerializeAsString();
  const std::string crc = more.substr(more.size() - 5), unknown = "\x7a\x03xyz";
  for (const std::string& sent : {crc + data, data + more, unknown + data, data + unknown, crc + crc, unknown}) {
    rpc::ChunkProto expected;
    ASSERT_TRUE(expected.ParseFromString(sent));
    ArrivedDownload arrived;
    grpc::ByteBuffer buffer = InSlices(sent, 3);
    ASSERT_OK(arrived.Take(buffer));
    EXPECT_EQ(arrived.total_bytes, expected.total_bytes());
    EXPECT_EQ(arrived.crc, expected.crc());
    EXPECT_EQ(Joint(arrived.data), expected.data());
  }
}

TEST(ArrivedDownloadTest, TakenAgain_HoldsTheLastAlone) {
  ArrivedDownload arrived;
  grpc::ByteBuffer first = DownloadChunk(100, AsBytes("first"), kCopied),
                   second = DownloadChunk(0, AsBytes("2"), kCopied);
  ASSERT_OK(arrived.Take(first));
  ASSERT_OK(arrived.Take(second));
  EXPECT_EQ(arrived.total_bytes, 0);
  EXPECT_EQ(Joint(arrived.data), "2");
}

// Every beginning of a message, and lengths that no message has: the verdict is protobuf's.
TEST(ChunkMessagesTest, Damaged_AreRefusedWhereProtobufRefusesThem) {
  const std::string download = DownloadMessage(70'000, MarkedBytes(40)).SerializeAsString();
  const std::string chunk = ChunkMessage(MarkedBytes(40)).SerializeAsString();
  std::vector<std::string> damaged = {std::string("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),
                                      std::string(12, '\xff'), std::string("\x1d\x01\x02", 3), std::string(3, '\0')};
  for (const std::string& whole : {download, chunk}) {
    for (size_t size = 0; size <= whole.size(); ++size) damaged.push_back(whole.substr(0, size));
  }
  int refused = 0;
  for (const std::string& sent : damaged) {
    ArrivedDownload as_download;
    grpc::ByteBuffer buffer = InSlices(sent, 7);
    const bool is_download = rpc::ChunkProto().ParseFromString(sent);
    EXPECT_EQ(as_download.Take(buffer).ok(), is_download) << ::testing::PrintToString(sent);
    ArrivedSubmit as_submit;
    buffer = InSlices(sent, 7);
    const bool is_submit = rpc::SubmitMessageProto().ParseFromString(sent);
    EXPECT_EQ(as_submit.Take(buffer).ok(), is_submit) << ::testing::PrintToString(sent);
    refused += !is_download + !is_submit;
  }
  EXPECT_GT(refused, 100);
}

TEST(ArrivedSubmitTest, ChunkCutAnywhere_IsHeldInItsPieces) {
  const std::string data = MarkedBytes(200), sent = ChunkMessage(data).SerializeAsString();
  for (size_t step = 1; step <= sent.size(); ++step) {
    ArrivedSubmit arrived;
    grpc::ByteBuffer buffer = InSlices(sent, step);
    ASSERT_OK(arrived.Take(buffer));
    EXPECT_TRUE(arrived.has_chunk);
    EXPECT_EQ(Joint(arrived.data), data);
  }
}

TEST(ArrivedSubmitTest, AllElse_IsAMessage) {
  rpc::SubmitMessageProto resume;
  resume.set_resume(1 << 20);
  ArrivedSubmit arrived;
  grpc::ByteBuffer chunk = UploadChunk(AsBytes("abc"), kCopied), buffer = ToBuffer(resume);
  ASSERT_OK(arrived.Take(chunk));
  ASSERT_OK(arrived.Take(buffer));
  EXPECT_FALSE(arrived.has_chunk);
  EXPECT_EQ(arrived.data.size(), 0);
  EXPECT_EQ(arrived.message.resume(), 1 << 20);
}

// Of what stands in a oneof the last counts.
TEST(ArrivedSubmitTest, SeveralOfOne_IsTheLast) {
  rpc::SubmitMessageProto finish;
  finish.set_finish("the end");
  const std::string chunk = ChunkMessage("abc").SerializeAsString();
  ArrivedSubmit arrived;
  grpc::ByteBuffer buffer = InSlices(chunk + finish.SerializeAsString(), 4);
  ASSERT_OK(arrived.Take(buffer));
  EXPECT_FALSE(arrived.has_chunk);
  EXPECT_EQ(arrived.message.finish(), "the end");
  buffer = InSlices(finish.SerializeAsString() + chunk, 4);
  ASSERT_OK(arrived.Take(buffer));
  EXPECT_TRUE(arrived.has_chunk);
  EXPECT_EQ(Joint(arrived.data), "abc");
  buffer = InSlices(chunk + "\x78\x01", 4);  // field 15, which a later program may have
  ASSERT_OK(arrived.Take(buffer));
  EXPECT_TRUE(arrived.has_chunk);
  EXPECT_EQ(Joint(arrived.data), "abc");
}

// Bytes that zstd makes fewer: nine in ten are zero, as of a sparse update.
std::string SparseBytes(size_t size) {
  std::string text = MarkedBytes(size);
  for (size_t i = 0; i < size; ++i) {
    if (i % 40 >= 4) text[i] = '\0';
  }
  return text;
}

TEST(PackedChunkTest, Sent_IsThatOfProtobufAndUnpacksToWhatWasPacked) {
  for (const size_t size : {100, 20'000, 300'000, 983'040}) {
    const std::string data = SparseBytes(size);
    const std::string down = Joint(DownloadChunk(70'000, AsBytes(data), kCopied, Packing::kZstd)),
                      up = Joint(UploadChunk(AsBytes(data), kCopied, Packing::kZstd));
    rpc::ChunkProto chunk;
    ASSERT_TRUE(chunk.ParseFromString(down));
    EXPECT_EQ(chunk.SerializeAsString(), down);
    EXPECT_EQ(chunk.data(), "");
    EXPECT_EQ(chunk.crc(), Crc32c(data));
    EXPECT_LT(2 * chunk.zstd().size(), size);
    rpc::SubmitMessageProto message;
    ASSERT_TRUE(message.ParseFromString(up));
    EXPECT_EQ(message.SerializeAsString(), up);
    ASSERT_TRUE(message.has_zstd());
    for (const size_t step : {size_t{1}, size_t{7}, size_t{16'384}, up.size()}) {
      if (step == 1 && size > 20'000) continue;
      grpc::ByteBuffer buffer = InSlices(down, step);
      ArrivedDownload arrived;
      ASSERT_OK(arrived.Take(buffer));
      EXPECT_EQ(arrived.total_bytes, 70'000);
      ASSERT_OK(arrived.data.Unpack());
      EXPECT_EQ(Joint(arrived.data), data);
      EXPECT_EQ(arrived.data.Crc(), arrived.crc);
      buffer = InSlices(up, step);
      ArrivedSubmit submit;
      ASSERT_OK(submit.Take(buffer));
      EXPECT_TRUE(submit.has_chunk);
      ASSERT_OK(submit.data.Unpack());
      EXPECT_EQ(Joint(submit.data), data);
      ASSERT_OK(submit.data.Unpack());  // once is enough
      EXPECT_EQ(Joint(submit.data), data);
    }
  }
}

// What would not be shorter is sent as if nobody had asked, from where it lies.
TEST(PackedChunkTest, NoiseAndNothing_AreSentAsTheyAre) {
  std::string noise(300'000, '\0');
  uint64_t state = 1;
  for (char& byte : noise)
    byte = static_cast<char>((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
  for (const std::string& data : {std::string(), std::string("a"), noise}) {
    EXPECT_EQ(Joint(DownloadChunk(9, AsBytes(data), kCopied, Packing::kZstd)),
              Joint(DownloadChunk(9, AsBytes(data), kCopied)));
    EXPECT_EQ(Joint(UploadChunk(AsBytes(data), kCopied, Packing::kZstd)), Joint(UploadChunk(AsBytes(data), kCopied)));
  }
}

TEST(PackedChunkTest, BesideTheBytesThemselves_Counts) {
  const std::string data = SparseBytes(500);
  rpc::ChunkProto both;
  ASSERT_TRUE(both.ParseFromString(Joint(DownloadChunk(9, AsBytes(data), kCopied, Packing::kZstd))));
  both.set_data("others");
  ArrivedDownload arrived;
  grpc::ByteBuffer buffer = InSlices(both.SerializeAsString(), 64);
  ASSERT_OK(arrived.Take(buffer));
  ASSERT_OK(arrived.data.Unpack());
  EXPECT_EQ(Joint(arrived.data), data);
}

// A message taken after a packed one holds its own bytes as they are.
TEST(PackedChunkTest, TakenBeforeAPlainOne_LeavesNothingBehind) {
  const std::string data = SparseBytes(500);
  ArrivedSubmit arrived;
  grpc::ByteBuffer packed = UploadChunk(AsBytes(data), kCopied, Packing::kZstd),
                   plain = UploadChunk(AsBytes("abc"), kCopied);
  ASSERT_OK(arrived.Take(packed));
  ASSERT_OK(arrived.Take(plain));
  ASSERT_OK(arrived.data.Unpack());
  EXPECT_EQ(Joint(arrived.data), "abc");
}

}  // namespace
}  // namespace rivulet
