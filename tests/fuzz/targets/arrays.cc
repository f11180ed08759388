// Files of arrays: safetensors, .npy, .npz.
#include <zlib.h>

#include "engine/base/file_system.h"
#include "engine/io/npy.h"
#include "engine/io/npz.h"
#include "engine/io/safetensors.h"
#include "tests/fuzz/target.h"
#include "tests/testing/tensors.h"

namespace rivulet::fuzz {
namespace {

constexpr float kValues[] = {1, 2, 3, 4, 5, 6};

std::string SomeSafetensors() {
  const SafetensorsEntry entries[] = {
      {"dense/kernel", DType::kFloat32, Shape{2, 2}, std::as_bytes(std::span(kValues)).first(16)},
      {"dense/bias", DType::kFloat32, Shape{2}, std::as_bytes(std::span(kValues)).subspan(16)}};
  return *SerializeSafetensors(entries, {{"format", "rivulet"}});
}

std::string SomeNpy() {
  return *NpyPreamble(DType::kFloat32, Shape{2, 3}) + std::string(reinterpret_cast<const char*>(kValues), 24);
}

void Put(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// An archive with one stored member whose checksum fits, so that a search gets to the array behind it.
std::string ZipOf(std::string_view name, std::string_view content) {
  const auto size = static_cast<uint32_t>(content.size());
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
  const auto common = [&](std::string& out) {
    Put(out, 20, 2);
    Put(out, 0, 2);
    Put(out, 0, 2);
    Put(out, 0, 4);
    Put(out, crc, 4);
    Put(out, size, 4);
    Put(out, size, 4);
    Put(out, static_cast<uint32_t>(name.size()), 2);
    Put(out, 0, 2);
  };
  std::string file = "PK\3\4";
  common(file);
  file += name;
  file += content;
  const auto directory = static_cast<uint32_t>(file.size());
  file += "PK\1\2";
  Put(file, 20, 2);
  common(file);
  Put(file, 0, 2);
  Put(file, 0, 2);
  Put(file, 0, 2);
  Put(file, 0, 4);
  Put(file, 0, 4);
  file += name;
  const auto length = static_cast<uint32_t>(file.size()) - directory;
  file += "PK\5\6";
  Put(file, 0, 4);
  Put(file, 1, 2);
  Put(file, 1, 2);
  Put(file, length, 4);
  Put(file, directory, 4);
  Put(file, 0, 2);
  return file;
}

const Registered safetensors{{"safetensors",
                              [](std::string_view bytes) {
                                const auto content = ParseSafetensors(bytes);
                                if (!content.ok()) return false;
                                size_t sum = 0;
                                for (const SafetensorsEntry& entry : content->tensors) {
                                  for (const std::byte byte : entry.data) sum += static_cast<size_t>(byte);
                                }
                                return content->tensors.size() == content->by_name.size() && sum + 1 > 0;
                              },
                              [] { return std::vector{SomeSafetensors()}; }}};

const Registered npy{
    {"npy", [](std::string_view bytes) { return DecodeNpy(bytes).ok(); }, [] { return std::vector{SomeNpy()}; }}};

const Registered npz{{"npz", [](std::string_view bytes) { return ParseNpz(bytes, 1 << 24).ok(); },
                      [] { return std::vector{ZipOf("kernel.npy", SomeNpy())}; }}};

const Registered npz_sealed{{"npz_sealed",
                             [](std::string_view bytes) { return ParseNpz(ZipOf("kernel.npy", bytes), 1 << 24).ok(); },
                             [] { return std::vector{SomeNpy()}; }}};

}  // namespace
}  // namespace rivulet::fuzz
