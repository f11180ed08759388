// Code derived from the list in which each column is declared once.
#include "coordinator/history/columns.h"

#include <unistd.h>

#include <filesystem>

#include "coordinator/history/row_columns.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {

struct SampleRow {
  int64_t key = 0;
  std::string text, empty;
  std::optional<double> real;
  std::optional<int64_t> none;
  bool flag = false;
  Digest digest;
};
template <>
struct SqlTable<SampleRow> {
  static constexpr char kName[] = "sample";
  static constexpr auto kColumns = std::tuple(
      SqlColumn{"key", &SampleRow::key, "INTEGER NOT NULL"}, SqlColumn{"text", &SampleRow::text, "TEXT NOT NULL"},
      SqlColumn{"empty", &SampleRow::empty, "TEXT"}, SqlColumn{"real", &SampleRow::real, "REAL"},
      SqlColumn{"none", &SampleRow::none, "INTEGER"}, SqlColumn{"flag", &SampleRow::flag, "INTEGER NOT NULL"},
      SqlColumn{"digest", &SampleRow::digest, "BLOB NOT NULL"});
  static constexpr char kRest[] = "PRIMARY KEY (key)";
  static constexpr bool kWithoutRowid = true;
};

namespace {

TEST(Columns, Statements_AreOfTheList) {
  EXPECT_EQ(CreateTableSql<SampleRow>(),
            "CREATE TABLE sample (\n  key INTEGER NOT NULL,\n  text TEXT NOT NULL,\n  empty TEXT,\n  real REAL,\n"
            "  none INTEGER,\n  flag INTEGER NOT NULL,\n  digest BLOB NOT NULL,\n  PRIMARY KEY (key)\n"
            ") STRICT, WITHOUT ROWID;\n");
  EXPECT_EQ(InsertSql<SampleRow>(),
            "INSERT INTO sample (key, text, empty, real, none, flag, digest) VALUES (?, ?, ?, ?, ?, ?, ?)");
  EXPECT_EQ(InsertSql<SampleRow>(2), InsertSql<SampleRow>() + ", (?, ?, ?, ?, ?, ?, ?)");
  EXPECT_EQ(SelectSql<SampleRow>("WHERE key = ?"),
            "SELECT key, text, empty, real, none, flag, digest FROM sample WHERE key = ?");
}

struct GrownRow : SampleRow {
  std::optional<double> weight;
  std::optional<int64_t> lanes;
};

}  // namespace

template <>
struct SqlTable<GrownRow> {
  static constexpr char kName[] = "grown";
  static constexpr auto kColumns =
      std::tuple(SqlColumn{"key", &SampleRow::key, "INTEGER NOT NULL"},
                 SqlColumn{"weight", &GrownRow::weight, "REAL", 5}, SqlColumn{"lanes", &GrownRow::lanes, "INTEGER", 7});
  static constexpr char kRest[] = "PRIMARY KEY (key)";
  static constexpr bool kWithoutRowid = false;
};

namespace {

TEST(Columns, Versions_HaveTheColumnsOfTheirTime) {
  EXPECT_EQ(CreateTableSql<GrownRow>(4),
            "CREATE TABLE grown (\n  key INTEGER NOT NULL,\n  PRIMARY KEY (key)\n) STRICT;\n");
  EXPECT_EQ(CreateTableSql<GrownRow>(6),
            "CREATE TABLE grown (\n  key INTEGER NOT NULL,\n  weight REAL,\n  PRIMARY KEY (key)\n) STRICT;\n");
  EXPECT_EQ(CreateTableSql<GrownRow>(7), CreateTableSql<GrownRow>());
  EXPECT_EQ(AddColumnsSql<GrownRow>(4),
            "ALTER TABLE grown ADD COLUMN weight REAL;\nALTER TABLE grown ADD COLUMN lanes INTEGER;\n");
  EXPECT_EQ(AddColumnsSql<GrownRow>(5), "ALTER TABLE grown ADD COLUMN lanes INTEGER;\n");
  EXPECT_EQ(AddColumnsSql<GrownRow>(7), "");
  EXPECT_EQ(NewestColumn<GrownRow>(), 7);
  EXPECT_EQ(NewestColumn<SampleRow>(), 0);
}

TEST(Columns, Row_ComesBackAsItWas) {
  const std::string path = ::testing::TempDir() + fmt::format("columns-{}.sqlite", getpid());
  {
    const auto opened = Database::Open(path, Database::Access::kReadWrite);
    ASSERT_OK(opened);
    Database& db = **opened;
    ASSERT_OK(db.Script(CreateTableSql<SampleRow>()));
    const SampleRow row = {7, "it's", "", 0.1, {}, true, Sha256Of("x")};
    ASSERT_OK(Insert(db, row));
    ASSERT_OK(Insert(db, SampleRow{8, "", "e", {}, -3, false, Sha256Of("")}));
    ASSERT_OK(
        db.Query("SELECT typeof(text), typeof(empty), typeof(real), typeof(none), typeof(digest), length(digest) "
                 "FROM sample WHERE key = 7",
                 {}, [](const SqlRow& r) {
                   EXPECT_EQ(r.Text(0) + r.Text(1) + r.Text(2) + r.Text(3) + r.Text(4), "textnullrealnullblob");
                   EXPECT_EQ(r.Int(5), 32);
                 }));
    const auto rows = Select<SampleRow>(db, "ORDER BY key", {});
    ASSERT_OK(rows);
    ASSERT_EQ(rows->size(), 2u);
    EXPECT_EQ((*rows)[0].text, "it's");
    EXPECT_EQ((*rows)[0].real, 0.1);
    EXPECT_EQ((*rows)[0].none, std::nullopt);
    EXPECT_TRUE((*rows)[0].flag);
    EXPECT_EQ((*rows)[0].digest, row.digest);
    EXPECT_EQ((*rows)[1].text, "");
    EXPECT_EQ((*rows)[1].empty, "e");
    EXPECT_EQ((*rows)[1].none, -3);

    const auto shown = Shown((*rows)[0]);
    ASSERT_EQ(shown.size(), 7u);
    EXPECT_EQ(shown[0].first, "key");
    EXPECT_EQ(std::get<int64_t>(shown[0].second), 7);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(shown[2].second));
    EXPECT_EQ(std::get<std::string>(shown[6].second), row.digest.Hex());
  }
  std::filesystem::remove(path);
}

TEST(Columns, SeveralRows_AreInsertedTogetherOrNotAtAll) {
  const std::string path = ::testing::TempDir() + fmt::format("rows-{}.sqlite", getpid());
  {
    const auto opened = Database::Open(path, Database::Access::kReadWrite);
    ASSERT_OK(opened);
    Database& db = **opened;
    ASSERT_OK(db.Script(CreateTableSql<SampleRow>()));
    const auto insert = db.Prepare(InsertSql<SampleRow>(2));
    ASSERT_OK(insert);
    const std::vector<SampleRow> rows = {{1, "a", "", 0.5, {}, true, Sha256Of("a")}, {2, "b", "e", {}, 7, false, {}}};
    ASSERT_OK(Insert(**insert, std::span(rows)));
    const auto twice = std::vector<SampleRow>{{3, "c", "", {}, {}, false, {}}, {2, "d", "", {}, {}, false, {}}};
    EXPECT_TRUE(absl::IsAlreadyExists(Insert(**insert, std::span(twice))));

    const auto found = Select<SampleRow>(db, "ORDER BY key", {});
    ASSERT_OK(found);
    ASSERT_EQ(found->size(), 2u);
    EXPECT_EQ((*found)[0].text, "a");
    EXPECT_EQ((*found)[0].real, 0.5);
    EXPECT_EQ((*found)[0].none, std::nullopt);
    EXPECT_EQ((*found)[1].empty, "e");
    EXPECT_EQ((*found)[1].none, 7);
  }
  std::filesystem::remove(path);
}

TEST(Columns, Statement_IsPreparedOncePerText) {
  const std::string path = ::testing::TempDir() + fmt::format("statements-{}.sqlite", getpid());
  {
    const auto db = Database::Open(path, Database::Access::kReadWrite);
    ASSERT_OK(db);
    const auto one = (*db)->Prepare("SELECT 1"), again = (*db)->Prepare("SELECT 1");
    ASSERT_OK(one);
    EXPECT_EQ(*one, *again);
    EXPECT_NE(*one, *(*db)->Prepare("SELECT 2"));
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace rivulet
