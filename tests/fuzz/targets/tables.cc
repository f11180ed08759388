// Files of data sets as people have them: tables, pictures, LEAF's JSON, CIFAR's records, files that are packed; and
// what is kept beside records.
#include <cstdlib>
#include <cstring>

#include "engine/data/event_file.h"
#include "engine/data/record_index.h"
#include "engine/data/tfrecord.h"
#include "engine/datasets/cifar_records.h"
#include "engine/datasets/image_file.h"
#include "engine/datasets/leaf.h"
#include "engine/datasets/source_file.h"
#include "engine/datasets/table.h"
#include "engine/datasets/table_reader.h"
#include "engine/io/crc32c.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr char kTable[] =
    "age,ward,ill\n"
    "41.5,\"A, left\",0\n"
    "6e1,\"B \"\"new\"\"\",1\r\n"
    "\n"
    "-3,A,1\n";

bool ReadsTable(std::string_view bytes) {
  const auto table = TableReader::Open(FileOf(bytes), {});
  if (!table.ok()) return false;
  std::vector<std::string> cells;
  StatusOr<bool> more = true;
  while (more.ok() && *more) {
    more = (*table)->Next(cells, {});
    if (more.ok() && *more && cells.size() != (*table)->names().size()) std::abort();
    for (const std::string& cell : cells) {
      CellNumber(cell);
      ShortCell(cell);
    }
  }
  return more.ok();
}

const Registered table{{"table", ReadsTable, [] { return std::vector<std::string>{kTable}; }}};

// From the file to records and to columns.json, twice over the bytes.
const Registered imported_table{
    {"table_import",
     [](std::string_view bytes) {
       const auto counts =
           ImportTable(Nowhere(), {.from = FileOf(bytes), .out = "/out", .label = "ill", .standardise = true});
       return counts.ok() && ParseTableColumns(ToJson(counts->columns)).ok();
     },
     [] { return std::vector<std::string>{kTable}; }}};

// What sites send of their tables is pooled with another's.
const Registered columns{{"table_columns",
                          [](std::string_view bytes) {
                            const auto read = ParseTableColumns(bytes);
                            if (!read.ok()) return false;
                            const std::string json = ToJson(*read);
                            const auto again = ParseTableColumns(json);
                            if (!again.ok() || ToJson(*again) != json) std::abort();
                            const auto pooled = PoolTableColumns({{"a", *read}, {"b", *again}});
                            if (pooled.ok() && !ParseTableColumns(ToJson(*pooled)).ok()) std::abort();
                            return true;
                          },
                          [] {
                            TableColumns made;
                            made.features = {{.name = "age", .mean = 41.5, .deviation = 3, .count = 9},
                                             {.name = "ward", .category = true, .values = {"A", "B"}}};
                            made.standardised = true;
                            made.label = "ill";
                            made.classes = {"no", "yes"};
                            made.class_count = 2;
                            TableColumns numbers = made;
                            numbers.label.clear();
                            numbers.classes.clear();
                            numbers.class_count = 0;
                            numbers.targets = {"dose", "days"};
                            return std::vector{ToJson(made), ToJson(numbers)};
                          }}};

constexpr char kLeafNumbers[] =
    R"({"users": ["f1", "f2"], "num_samples": [2, 1], "user_data": {"f1": {"x": [[0, 0.5], [1, 0]], "y": [3, 4]},)"
    R"( "f2": {"x": [[0.25, 1]], "y": [0]}}, "hierarchies": [["a", {"b": null}]]})";
constexpr char kLeafText[] =
    R"({"users": ["A"], "num_samples": [1], "user_data": {"A": {"x": ["To b"], "y": ["e"], "raw": "To be"}}})";

// The first byte says whether numbers are pixels.
const Registered leaf{{"leaf",
                       [](std::string_view bytes) {
                         if (bytes.empty()) return false;
                         const bool pixels = bytes[0] == '1';
                         const std::string path = JsonFileOf(bytes.substr(1));
                         return ImportLeaf(Nowhere(), {.from = path, .out = "/out", .pixels = pixels}).ok();
                       },
                       [] {
                         return std::vector{std::string("0") + kLeafNumbers, std::string("1") + kLeafNumbers,
                                            std::string("0") + kLeafText};
                       }}};

const Registered cifar{{"cifar",
                        [](std::string_view bytes) {
                          constexpr CifarLabel kLabels[] = {{"coarse_label", 19}, {"label", 99}};
                          const std::string path = FileOf(bytes);
                          const auto writer = RecordWriter::Create(Nowhere(), "/out");
                          return AppendCifarRecords(path, kLabels, {}, **writer).ok();
                        },
                        [] { return std::vector{std::string("\x13\x63") + std::string(3072, '\x7f')}; }}};

constexpr char kPixel[] =
    "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\n"
    "IDATx\xda\x63h\x00\x00\x00\x82\x00\x81\xda\x45\x08;\x00\x00\x00\x00IEND\xae\x42`\x82";

// libpng and libjpeg read the files, and what they cannot read leaves them by longjmp.
const Registered image{{"image",
                        [](std::string_view bytes) {
                          const auto grey = DecodeImage(bytes, 1), colours = DecodeImage(bytes, 3);
                          if (grey.ok() && std::ssize(grey->pixels) != grey->width * grey->height) std::abort();
                          return grey.ok() && colours.ok();
                        },
                        [] { return std::vector{std::string(kPixel, sizeof(kPixel) - 1)}; }}};

const Registered packed{{"packed_file",
                         [](std::string_view bytes) {
                           const auto source = SourceFile::Open(FileOf(bytes));
                           if (!source.ok()) return false;
                           size_t left = size_t{1} << 22;  // of a bomb
                           while (left > 0 && (*source)->Next() >= 0) --left;
                           return (*source)->status().ok();
                         },
                         [] {
                           return std::vector{
                               std::string("plain"),
                               std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0", 21),
                               std::string("\x78\x9c\x4b\x04\0\0\x62\0\x62", 9)};
                         }}};

// The checksum at the end is made right, so that what is behind it is tried.
const Registered index_file{{"record_index",
                             [](std::string_view input) {
                               constexpr IndexKey kKey = {1000, 7, 9};
                               std::string bytes(input);
                               if (bytes.size() >= 4) {
                                 bytes.resize(bytes.size() - 4);
                                 const uint32_t crc = MaskCrc(Crc32c(bytes));
                                 bytes.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
                               }
                               const auto offsets = DecodeIndex(bytes, kKey);
                               if (!offsets.ok()) return false;
                               if (EncodeIndex(kKey, *offsets) != bytes) std::abort();
                               return true;
                             },
                             [] {
                               return std::vector{EncodeIndex({1000, 7, 9}, {0, 20, 900})};
                             }}};

// One event; its record's checksums are made here.
const Registered event{{"event",
                        [](std::string_view bytes) {
                          std::string file;
                          AppendRecordFrame(bytes, file);
                          return ReadEventFile(FileOf(file)).ok();
                        },
                        [] {
                          return std::vector{std::string("\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                                                         "brain.Event:2",
                                                         24),
                                             std::string("\x09\0\0\0\0\0\0\xf0\x3f\x10\x05\x2a\x0d\x0a\x0b\x0a\x04loss"
                                                         "\x15\0\0\0\x3f",
                                                         26)};
                        },
                        MessageFrom(0)}};

}  // namespace
}  // namespace rivulet::fuzz
