#include "engine/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <span>

namespace rivulet {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint64_t kMax32 = 0xffffffff;
constexpr uint16_t kZip64Tag = 1;
constexpr uint64_t kMaxDeflateRatio = 1032;  // zlib's documentation

uint64_t Load(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}
void Store(std::string& bytes, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
}

Status Damaged(std::string_view what) { return DataLoss("the ZIP archive {}", what); }

struct Directory {
  uint64_t offset = 0, bytes = 0, members = 0;
};

// The record at the archive's end, which may be followed by a comment of up to 65,535 bytes. It can only be found from
// the end, and a comment may contain bytes that resemble it. The right record ends, with its comment, exactly at the
// end of the file.
StatusOr<Directory> FindDirectory(std::string_view bytes) {
  if (bytes.size() < kEndBytes) return DataLoss("not a ZIP archive: {} bytes", bytes.size());
  const size_t first = bytes.size() - std::min<size_t>(bytes.size(), kEndBytes + 65535);
  for (size_t at = bytes.size() - kEndBytes + 1; at-- > first;) {
    if (Load(bytes, at, 4) != kEnd || at + kEndBytes + Load(bytes, at + 20, 2) != bytes.size()) continue;
    Directory directory{Load(bytes, at + 16, 4), Load(bytes, at + 12, 4), Load(bytes, at + 10, 2)};
    if (Load(bytes, at + 4, 2) != Load(bytes, at + 6, 2)) return Unimplemented("the ZIP archive spans several disks");
    if (at >= kLocatorBytes && Load(bytes, at - kLocatorBytes, 4) == kLocator64) {
      const uint64_t end64 = Load(bytes, at - kLocatorBytes + 8, 8);
      if (end64 > at - kLocatorBytes || at - kLocatorBytes - end64 < kEnd64Bytes || Load(bytes, end64, 4) != kEnd64)
        return Damaged("points to a ZIP64 record that is not there");
      directory = {Load(bytes, end64 + 48, 8), Load(bytes, end64 + 40, 8), Load(bytes, end64 + 32, 8)};
    }
    if (directory.offset > at || directory.bytes > at - directory.offset)
      return Damaged("has a directory outside of the file");
    if (directory.members > directory.bytes / kCentralBytes)
      return Damaged(fmt::format("claims {} members, more than its directory can hold", directory.members));
    return directory;
  }
  return DataLoss("not a ZIP archive, or cut off: it has no directory at its end");
}

// Sizes and the offset of a directory entry that do not fit 32 bits stand in its ZIP64 field, in this order.
Status ReadZip64(std::string_view extra, uint64_t& size, uint64_t& stored, uint64_t& offset) {
  while (extra.size() >= 4) {
    const uint64_t tag = Load(extra, 0, 2), length = Load(extra, 2, 2);
    if (length > extra.size() - 4) return Damaged("has an extra field that is cut off");
    if (tag == kZip64Tag) {
      std::string_view field = extra.substr(4, length);
      for (uint64_t* value : {&size, &stored, &offset}) {
        if (*value != kMax32) continue;
        if (field.size() < 8) return Damaged("has a ZIP64 field that is cut off");
        *value = Load(field, 0, 8);
        field.remove_prefix(8);
      }
      return absl::OkStatus();
    }
    extra.remove_prefix(4 + length);
  }
  return absl::OkStatus();
}

// Returns true if a member's header agrees with the directory. Readers differ in which of the two they use, so an
// archive in which they differ has different contents for different readers. A writer that could not seek (flag 3) puts
// the sizes and the checksum after the data.
bool HeaderAgrees(std::string_view header, const ZipMember& member, uint64_t method, uint64_t stored) {
  const size_t name = Load(header, 26, 2), extra = Load(header, 28, 2);
  if (header.substr(kLocalBytes, name) != member.name || Load(header, 8, 2) != method) return false;
  if ((Load(header, 6, 2) & 8) != 0) return true;
  uint64_t size = Load(header, 22, 4), packed = Load(header, 18, 4), none = 0;
  if (!ReadZip64(header.substr(kLocalBytes + name, extra), size, packed, none).ok()) return false;
  return size == member.size && packed == stored && Load(header, 14, 4) == member.crc32;
}

}  // namespace

// The directory is authoritative, as for every reader of the format. The local headers must agree with it, and are
// needed to find the data, since their extra fields may have other lengths.
StatusOr<std::vector<ZipMember>> ReadZipDirectory(std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(bytes));
  std::string_view rest = bytes.substr(directory.offset, directory.bytes);
  std::vector<ZipMember> members;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (uint64_t i = 0; i < directory.members; ++i) {
    if (rest.size() < kCentralBytes || Load(rest, 0, 4) != kCentral)
      return Damaged(fmt::format("has a directory that ends within member {} of {}", i + 1, directory.members));
    const uint64_t flags = Load(rest, 8, 2), method = Load(rest, 10, 2);
    const size_t name = Load(rest, 28, 2), extra = Load(rest, 30, 2), comment = Load(rest, 32, 2);
    if (rest.size() - kCentralBytes < name + extra + comment)
      return Damaged(fmt::format("has a directory that ends within member {} of {}", i + 1, directory.members));
    ZipMember member;
    member.name = rest.substr(kCentralBytes, name);
    member.crc32 = static_cast<uint32_t>(Load(rest, 16, 4));
    member.size = Load(rest, 24, 4);
    uint64_t stored = Load(rest, 20, 4), offset = Load(rest, 42, 4);
    RIVULET_RETURN_IF_ERROR(ReadZip64(rest.substr(kCentralBytes + name, extra), member.size, stored, offset));
    rest.remove_prefix(kCentralBytes + name + extra + comment);
    if ((flags & 1) != 0) return Unimplemented("member {} of the ZIP archive is encrypted", i + 1);
    if (method != 0 && method != 8)
      return Unimplemented("member {} of the ZIP archive is compressed by method {}; write it again uncompressed",
                           i + 1, method);
    member.deflated = method == 8;
    if (offset > directory.offset || directory.offset - offset < kLocalBytes || Load(bytes, offset, 4) != kLocal)
      return Damaged(fmt::format("has no member {} at the place in its directory", i + 1));
    const uint64_t data = offset + kLocalBytes + Load(bytes, offset + 26, 2) + Load(bytes, offset + 28, 2);
    if (data > directory.offset || stored > directory.offset - data)
      return Damaged(fmt::format("has a member {} that reaches beyond its data", i + 1));
    if (!HeaderAgrees(bytes.substr(offset, data - offset), member, method, stored))
      return Damaged(
          fmt::format("describes member {} in one way in its directory and in another at the member", i + 1));
    // A Deflate stream unpacks to at most 1032 times its size. A larger stated size is false, and no memory is
    // allocated for it.
    if (member.deflated ? member.size / kMaxDeflateRatio > stored + 64 : member.size != stored)
      return Damaged(fmt::format("has a member {} of {} bytes stored in {}", i + 1, member.size, stored));
    member.stored = bytes.substr(data, stored);
    ranges.emplace_back(offset, data + stored);
    members.push_back(std::move(member));
  }
  // Members that share bytes are how a small archive unpacks to a huge one.
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return Damaged("has members that overlap");
  return members;
}

StatusOr<std::string> ReadZipMember(const ZipMember& member, uint64_t limit) {
  if (member.size > limit)
    return ResourceExhausted("a member of the ZIP archive has {} bytes, more than the {} that are allowed", member.size,
                             limit);
  std::string content;
  if (member.deflated) {
    content.resize(member.size);
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Internal("zlib could not start");
    // zlib counts in 32 bits: both sides in pieces.
    size_t in = 0, out = 0;
    int code = Z_OK;
    while (code == Z_OK) {
      const size_t in_piece = std::min<size_t>(member.stored.size() - in, 1u << 30);
      const size_t out_piece = std::min<size_t>(content.size() - out, 1u << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(member.stored.data() + in));
      stream.avail_in = static_cast<uInt>(in_piece);
      char nothing = 0;  // zlib wants an address even where nothing may be written
      stream.next_out = reinterpret_cast<Bytef*>(out_piece > 0 ? content.data() + out : &nothing);
      stream.avail_out = static_cast<uInt>(out_piece);
      code = inflate(&stream, Z_NO_FLUSH);
      in += in_piece - stream.avail_in;
      out += out_piece - stream.avail_out;
      if (code == Z_OK && in_piece == stream.avail_in && out_piece == stream.avail_out) break;  // no progress
    }
    inflateEnd(&stream);
    if (code != Z_STREAM_END || out != content.size())
      return Damaged("has a compressed member that is cut off or damaged");
  } else {
    content = member.stored;
  }
  uLong crc = crc32_z(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != member.crc32) return Damaged("has a member whose checksum is wrong");
  return content;
}

std::string ReadZipMemberHead(const ZipMember& member, size_t bytes) {
  if (!member.deflated) return std::string(member.stored.substr(0, bytes));
  constexpr size_t kMost = 1u << 30;  // zlib counts in 32 bits
  std::string head(std::min({bytes, kMost, static_cast<size_t>(member.size)}), '\0');
  z_stream stream = {};
  if (head.empty() || inflateInit2(&stream, -MAX_WBITS) != Z_OK) return "";
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(member.stored.data()));
  stream.avail_in = static_cast<uInt>(std::min(member.stored.size(), kMost));
  stream.next_out = reinterpret_cast<Bytef*>(head.data());
  stream.avail_out = static_cast<uInt>(head.size());
  inflate(&stream, Z_SYNC_FLUSH);
  head.erase(std::min<size_t>(stream.total_out, head.size()));
  inflateEnd(&stream);
  return head;
}

Status ZipWriter::Add(const std::string& name, std::string_view head, std::span<const std::byte> body) {
  if (name.size() > 65535) return InvalidArgument("a name of {} bytes is too long for a ZIP archive", name.size());
  uLong crc = crc32_z(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(head.data()), head.size());
  if (!body.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(body.data()), body.size());
  const Written member{name, head.size() + body.size(), file_.size(), static_cast<uint32_t>(crc)};
  const bool large = member.size >= kMax32;
  std::string header;
  Store(header, kLocal, 4);
  Store(header, large ? 45 : 20, 2);            // version needed
  Store(header, 0x0800, 2);                     // names are UTF-8
  Store(header, 0, 2);                          // stored
  Store(header, 0, 2), Store(header, 0x21, 2);  // 1980-01-01: the same tensors give the same bytes
  Store(header, member.crc32, 4);
  Store(header, large ? kMax32 : member.size, 4), Store(header, large ? kMax32 : member.size, 4);
  Store(header, name.size(), 2);
  Store(header, large ? 20 : 0, 2);
  header += name;
  if (large)
    Store(header, kZip64Tag, 2), Store(header, 16, 2), Store(header, member.size, 8), Store(header, member.size, 8);
  RIVULET_RETURN_IF_ERROR(file_.Append(header));
  RIVULET_RETURN_IF_ERROR(file_.Append(head));
  RIVULET_RETURN_IF_ERROR(file_.Append(body));
  written_.push_back(member);
  return absl::OkStatus();
}

Status ZipWriter::Finish() {
  const uint64_t begin = file_.size();
  std::string directory;
  for (const Written& member : written_) {
    std::string extra;
    if (member.size >= kMax32) Store(extra, member.size, 8), Store(extra, member.size, 8);
    if (member.offset >= kMax32) Store(extra, member.offset, 8);
    if (!extra.empty()) {
      std::string field;
      Store(field, kZip64Tag, 2), Store(field, extra.size(), 2);
      extra = field + extra;
    }
    const uint64_t size = std::min(member.size, kMax32);
    Store(directory, kCentral, 4);
    Store(directory, extra.empty() ? 20 : 45, 2), Store(directory, extra.empty() ? 20 : 45, 2);
    Store(directory, 0x0800, 2), Store(directory, 0, 2);
    Store(directory, 0, 2), Store(directory, 0x21, 2);
    Store(directory, member.crc32, 4);
    Store(directory, size, 4), Store(directory, size, 4);
    Store(directory, member.name.size(), 2), Store(directory, extra.size(), 2), Store(directory, 0, 2);
    Store(directory, 0, 2), Store(directory, 0, 2), Store(directory, 0, 4);  // disk, attributes
    Store(directory, std::min(member.offset, kMax32), 4);
    directory += member.name + extra;
  }
  const uint64_t bytes = directory.size();
  if (begin >= kMax32 || bytes >= kMax32 || written_.size() >= 0xffff) {
    Store(directory, kEnd64, 4), Store(directory, kEnd64Bytes - 12, 8);
    Store(directory, 45, 2), Store(directory, 45, 2), Store(directory, 0, 4), Store(directory, 0, 4);
    Store(directory, written_.size(), 8), Store(directory, written_.size(), 8);
    Store(directory, bytes, 8), Store(directory, begin, 8);
    Store(directory, kLocator64, 4), Store(directory, 0, 4), Store(directory, begin + bytes, 8), Store(directory, 1, 4);
  }
  const uint64_t members = std::min<uint64_t>(written_.size(), 0xffff);
  Store(directory, kEnd, 4), Store(directory, 0, 4);
  Store(directory, members, 2), Store(directory, members, 2);
  Store(directory, std::min(bytes, kMax32), 4), Store(directory, std::min(begin, kMax32), 4);
  Store(directory, 0, 2);
  return file_.Append(directory);
}

}  // namespace rivulet
