#include "certificates/archive.h"

#include <zlib.h>

#include <array>
#include <cstring>

namespace rivulet {
namespace {

constexpr size_t kBlock = 512;

struct Entry {
  std::string_view prefix, name;
  size_t size = 0;
  int mode = 0600;
  char type = '0';  // '5': a folder
};

// name 100, mode 8, uid 8, gid 8, size 12, mtime 12, checksum 8, type 1, link 100, magic 6, version 2, user 32, group
// 32, device 16, prefix 155, padding 12: numbers are octal text.
std::string Header(const Entry& entry, int64_t seconds) {
  std::string block(kBlock, '\0');
  const auto put = [&](size_t at, std::string_view text) { std::memcpy(block.data() + at, text.data(), text.size()); };
  put(0, entry.name);
  put(100, fmt::format("{:07o}", entry.mode));
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", entry.size));
  put(136, fmt::format("{:011o}", seconds));
  put(148, "        ");  // the checksum's own field counts as blanks
  block[156] = entry.type;
  put(257, "ustar");
  put(263, "00");
  put(345, entry.prefix);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

StatusOr<std::string> Gzip(std::string_view bytes) {
  z_stream stream{};
  // A window of 15 bits, and 16 for gzip's header, in which zlib writes neither a name nor a time.
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
    return Internal("cannot start the compression of an archive");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return Internal("cannot compress an archive");
  return out;
}

}  // namespace

StatusOr<std::string> TarGz(std::string_view top, const std::vector<DeliveredFile>& files, int64_t seconds) {
  if (top.size() > 155) return InvalidArgument("an archive's folder '{}' has more than 155 bytes", top);
  std::string tar = Header({.prefix = top, .name = "./", .size = 0, .mode = 0700, .type = '5'}, seconds);
  for (const DeliveredFile& file : files) {
    if (file.name.size() > 100) return InvalidArgument("an archive's file '{}' has more than 100 bytes", file.name);
    tar += Header({.prefix = top, .name = file.name, .size = file.bytes.size(), .mode = file.executable ? 0700 : 0600},
                  seconds);
    tar += file.bytes;
    tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock);
  }
  tar.resize(tar.size() + 2 * kBlock);  // the end
  return Gzip(tar);
}

}  // namespace rivulet
