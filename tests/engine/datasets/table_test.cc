#include "engine/datasets/table.h"

#include "engine/data/example.h"
#include "engine/datasets/csv_reader.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::vector<std::string>;

class TableTest : public DataTest {
 protected:
  // The rows of a CSV file, or its error.
  std::string Rows(const std::string& csv, std::vector<Row>* rows = nullptr, char delimiter = ',') {
    Write("rows.csv", csv);
    const auto source = SourceFile::Open(Path("rows.csv"));
    EXPECT_OK(source);
    CsvReader reader(**source, delimiter);
    for (Row cells;;) {
      const auto more = reader.Next(cells);
      if (!more.ok()) return folder_.Relative(Message(more.status()));
      if (!*more) return "";
      if (rows != nullptr) rows->push_back(cells);
    }
  }
  TableOptions Options(const std::string& csv) {
    TableOptions options;
    options.from = Write("t.csv", csv);
    options.out = Path("out");
    options.label = "y";
    return options;
  }
  StatusOr<TableCounts> Import(const TableOptions& options) { return ImportTable(FileSystem::Default(), options); }
  std::string Error(const TableOptions& options) {
    const auto counts = Import(options);
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
    return counts.ok() ? "imported" : folder_.Relative(Message(counts.status()));
  }
  std::string Error(const std::string& csv) { return Error(Options(csv)); }
  // Features and label of each record.
  std::vector<std::string> Told(const std::string& file) {
    const auto records = ReadRecords(Path(file));
    EXPECT_OK(records);
    std::vector<std::string> told;
    for (const std::string& record : *records) {
      const auto features = ParseExample(record);
      EXPECT_OK(features);
      std::string line;
      for (const auto& [name, feature] : *features) {
        if (feature.kind() == FeatureKind::kBytes) line += fmt::format("{} ", feature.FirstBytes());
        if (feature.kind() == FeatureKind::kInt64) {
          std::vector<int64_t> values(static_cast<size_t>(feature.count()));
          feature.CopyInt64s(values);
          line += fmt::format("= {}", fmt::join(values, " "));
        }
        if (feature.kind() != FeatureKind::kFloat) continue;
        std::vector<float> values(static_cast<size_t>(feature.count()));
        feature.CopyFloats(values);
        for (const float value : values) line += fmt::format("{:g} ", value);
      }
      told.push_back(line);
    }
    return told;
  }
};

// 20 rows: identifiers, an age with two ways to say that there is none, and an empty column.
std::string TableWithGaps(const std::string& age_of_row_7) {
  std::string csv = "id,age,note,ward,y\n";
  for (int row = 0; row < 20; ++row)
    csv += fmt::format("P{},{},,{},{}\n", row,
                       row == 7   ? age_of_row_7
                       : row == 3 ? "?"
                                  : std::to_string(30 + row),
                       row % 2 == 0 ? "east" : "west", row % 3 == 0 ? 1 : 0);
  return csv;
}

TEST_F(TableTest, Remedies_AreTheOptionsThatImportEveryColumn) {
  TableOptions options = Options(TableWithGaps("NA"));
  EXPECT_THAT(Error(options), AllOf(HasSubstr("column 'id'"), HasSubstr("column 'age'"), HasSubstr("column 'note'")));
  ASSERT_OK_AND_ASSIGN(const TableRemedies remedies, FindRemedies(options));
  EXPECT_EQ(remedies.without, (std::vector<std::string>{"id", "note"}));
  EXPECT_EQ(remedies.missing, (std::vector<std::string>{"?", "NA"}));
  EXPECT_TRUE(remedies.fill_missing);
  remedies.AddTo(options);
  ASSERT_OK_AND_ASSIGN(const TableCounts counts, Import(options));
  EXPECT_EQ(counts.train, 20);
  ASSERT_OK_AND_ASSIGN(const TableRemedies none, FindRemedies(options));
  EXPECT_TRUE(none.empty());
}

TEST_F(TableTest, Remedies_SeeRowsOfTheTest) {
  TableOptions options = Options(TableWithGaps("33"));
  options.test_every = 4;  // row 3, with the "?", is for the test
  options.without = {"id", "note"};
  EXPECT_THAT(Error(options), HasSubstr("'?' in column 'age' is no finite number"));
  ASSERT_OK_AND_ASSIGN(const TableRemedies in_rows, FindRemedies(options));
  EXPECT_EQ(in_rows.missing, std::vector<std::string>{"?"});
  options.test_every = 0;
  options.missing = {"?"};
  options.fill_missing = true;
  options.test = Write("test.csv", "id,age,note,ward,y\nP1,n/a,,east,1\nP2,40,,west,0\n");
  ASSERT_OK_AND_ASSIGN(const TableRemedies in_file, FindRemedies(options));
  EXPECT_EQ(in_file.missing, std::vector<std::string>{"n/a"});
  EXPECT_TRUE(in_file.without.empty());
}

TEST_F(TableTest, Remedies_GuessNoNumber) {
  const TableOptions options = Options(TableWithGaps("$5"));
  EXPECT_THAT(FindRemedies(options), testing::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("--unit '$'")));
  EXPECT_THAT(FindRemedies(Options("a,y\n1,0\n2\n")),
              testing::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("1 cells")));
}

TEST_F(TableTest, CsvCells_AreReadAsTheRfcHasThem) {
  std::vector<Row> rows;
  EXPECT_EQ(Rows("\xEF\xBB\xBF"
                 "a,b\r\n\r\n\"1,\"\"x\"\"\n2\", 3\n,\n\"\",last",
                 &rows),
            "");
  EXPECT_THAT(rows, ElementsAre(Row{"a", "b"}, Row{"1,\"x\"\n2", " 3"}, Row{"", ""}, Row{"", "last"}));
  rows.clear();
  EXPECT_EQ(Rows("a\tb\n1\t2", &rows, '\t'), "");
  EXPECT_THAT(rows, ElementsAre(Row{"a", "b"}, Row{"1", "2"}));
  rows.clear();
  EXPECT_EQ(Rows("", &rows), "");
  EXPECT_TRUE(rows.empty());
}

TEST_F(TableTest, DamagedCsv_IsRefusedByLine) {
  EXPECT_EQ(Rows("a,b\n1,\"2\n3,4\n"), "rows.csv: line 2: a quote that is never closed");
  EXPECT_THAT(Rows("a,b\n\"x\ny\",1\n\"1\"2,3\n"),
              HasSubstr("rows.csv: line 4: text follows the closing quote of cell"));
  EXPECT_THAT(Rows(std::string("a,b\n1,\0\n", 8)), HasSubstr("rows.csv: line 2: a NUL byte"));
  EXPECT_THAT(Rows("a\n\"" + std::string(CsvReader::kMaxCellBytes + 1, 'x')),
              HasSubstr("line 2: cell 1 has more than"));
  EXPECT_THAT(Rows(std::string(CsvReader::kMaxCells + 1, ',')), HasSubstr("more than 65536 cells in one row"));
  EXPECT_THAT(Rows("\xEF\xBB"), HasSubstr("bytes that are no text"));
}

TEST_F(TableTest, Columns_BecomeNumbersAndCategories) {
  TableOptions options = Options("ward,age,sex,y,note\nA,30,f,sick,x\nB,50.5,m,well,\nA,-1e1,f,well,z\n");
  options.key = "ward";
  options.without = {"note"};
  const auto counts = Import(options);
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 3);
  EXPECT_EQ(counts->test, 0);
  EXPECT_EQ(counts->columns.feature_count(), 3);
  EXPECT_THAT(counts->columns.classes, ElementsAre("sick", "well"));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("30 1 0 = 0A ", "50.5 0 1 = 1B ", "-10 1 0 = 1A "));
  EXPECT_FALSE(std::filesystem::exists(Path("out/test.tfrecord")));
}

TEST_F(TableTest, Standardised_HasMeanZeroAndDeviationOne) {
  TableOptions options = Options("a,b,y\n1,7,0\n3,7,4\n");
  options.standardise = true;
  const auto counts = Import(options);
  ASSERT_OK(counts);
  EXPECT_EQ(counts->columns.class_count, 5);  // whole numbers stay what they are
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("-1 0 = 0", "1 0 = 4"));
}

TEST_F(TableTest, StoredColumns_GiveOtherFilesTheSameMeaning) {
  TableOptions first = Options("a,c,y\n1,u,p\n3,v,q\n");
  first.standardise = true;
  ASSERT_OK(Import(first));
  TableOptions second = Options("y,c,a,more\nq,v,5,1\np,w,2,2\n");
  second.out = Path("other");
  second.columns = Path("out/columns.json");
  ASSERT_OK(Import(second));
  EXPECT_THAT(Told("other/train.tfrecord"), ElementsAre("3 0 1 = 1", "0 0 0 = 0"));
  EXPECT_EQ(testing::ContentOf(Path("other/columns.json")), testing::ContentOf(Path("out/columns.json")));
  std::filesystem::remove_all(Path("out"));
  second.out = Path("out");
  second.columns = Path("other/columns.json");
  second.from = Write("t.csv", "y,c,a\nqq,v,5\n");
  EXPECT_EQ(Error(second), "t.csv: line 2: the label 'qq' is not one of the 2 classes.");
  second.from = Write("t.csv", "y,c\nq,v\n");
  EXPECT_THAT(Error(second), HasSubstr("t.csv has no column 'a'. It has 'y', 'c'."));
  second.label = "c";
  EXPECT_THAT(Error(second), HasSubstr("columns.json has the label 'y', not the label 'c'"));
}

TEST_F(TableTest, ColumnsOfSeveralKinds_AreFeaturesOfTheirOwn) {
  TableOptions options = Options("age,shop,height,town,y\n1,u,5,r,p\n3,v,7,s,q\n5,u,9,r,p\n");
  options.indexed = {"shop"};
  options.parts = {{"body", {"height", "town"}}};
  ASSERT_OK_AND_ASSIGN(const TableCounts counts, Import(options));
  // In byte order of the features' names: body, features, label, shop.
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("5 1 0 1 = 0= 1", "7 0 1 3 = 1= 2", "9 1 0 5 = 0= 1"));
  const std::vector<TableFeature> features = counts.columns.Grouped();
  ASSERT_EQ(features.size(), 3u);
  EXPECT_EQ(features[0].name, "features");
  EXPECT_THAT(features[0].mean, ElementsAre(3));
  EXPECT_EQ(features[1].name, "shop");
  EXPECT_EQ(features[1].vocabulary, 3);
  EXPECT_EQ(features[1].count, 1);
  EXPECT_TRUE(features[1].mean.empty());
  EXPECT_EQ(features[2].name, "body");
  EXPECT_THAT(features[2].mean, ElementsAre(7, 0, 0));
  EXPECT_EQ(features[2].deviation[1], 1);
  TableOptions second = Options("age,shop,height,town,y\n1,w,5,t,p\n");
  second.out = Path("other");
  second.columns = Path("out/columns.json");
  ASSERT_OK(Import(second));
  EXPECT_THAT(Told("other/train.tfrecord"), ElementsAre("5 0 0 1 = 0= 0")) << "an unknown value is 0";
}

TEST_F(TableTest, FeaturesThatCannotBe_AreRefused) {
  TableOptions options = Options("a,b,c,y\n1,2,3,0\n");
  options.parts = {{"label", {"a"}}};
  EXPECT_THAT(Error(options), HasSubstr("the feature 'label' has the name of another one"));
  options.parts = {{"x", {"a"}}, {"z", {"a"}}};
  EXPECT_THAT(Error(options), HasSubstr("column 'a' cannot be part of two features"));
  options.parts = {{"x", {"a", "y"}}};
  EXPECT_THAT(Error(options), HasSubstr("column 'y' is no feature, so it cannot be part of 'x'"));
  options.parts = {{"x", {"a", "b"}}};
  options.indexed = {"b"};
  EXPECT_THAT(Error(options), HasSubstr("the feature 'x' cannot hold integers of 'b' beside numbers"));
  options.parts = {};
  options.categories = {"b"};
  EXPECT_THAT(Error(options), HasSubstr("column 'b' cannot be an index and a category"));
  options.categories = {};
  options.indexed = {"d"};
  EXPECT_THAT(Error(options), HasSubstr("no column 'd'"));
  options.indexed = {"b"};
  options.key = "b";
  EXPECT_THAT(Error(options), HasSubstr("column 'b' is no feature"));
}

TEST_F(TableTest, Targets_AreFloatsAsTheyAre) {
  TableOptions options = Options("a,y,z\n1,0.5,-2\n3,1e3,7\n");
  options.label.clear();
  options.targets = {"z", "y"};
  options.standardise = true;
  const auto counts = Import(options);
  ASSERT_OK(counts);
  EXPECT_EQ(counts->columns.feature_count(), 1);
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("-1 -2 0.5 ", "1 7 1000 "));
  TableOptions second = options;
  second.from = Write("u.csv", "z,y,a\n1,2,5\n");
  second.out = Path("other");
  second.standardise = false;
  second.columns = Path("out/columns.json");
  ASSERT_OK(Import(second));
  EXPECT_THAT(Told("other/train.tfrecord"), ElementsAre("3 1 2 "));
  std::filesystem::remove_all(Path("out"));
  second.columns = Path("other/columns.json");
  second.out = Path("out");
  second.targets = {"y"};
  EXPECT_THAT(Error(second), HasSubstr("columns.json has the target 'z', 'y', not the target 'y'"));
  options.from = Write("t.csv", "a,y,z\n1,x,0\n");
  EXPECT_THAT(Error(options), HasSubstr("t.csv: line 2: 'x' in column 'y' is no number that a float holds"));
  options.from = Write("t.csv", "a,y,z\n1,,0\n");
  EXPECT_THAT(Error(options), HasSubstr("t.csv: line 2: '' in column 'y' is no number that a float holds"));
}

TEST_F(TableTest, Labels_AreAZeroOrAOneEach) {
  TableOptions options = Options("a,rain,wind\n5,1, 0\n6,1,1\n");
  options.label.clear();
  options.labels = {"wind", "rain"};
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("5 = 0 1", "6 = 1 1"));
  EXPECT_THAT(testing::ContentOf(Path("out/columns.json")),
              HasSubstr("\"labels\": [\n    \"wind\",\n    \"rain\"\n  ]"));
  std::filesystem::remove_all(Path("out"));
  options.from = Write("t.csv", "a,rain,wind\n5,2,0\n");
  EXPECT_THAT(Error(options), HasSubstr("t.csv: line 2: '2' in column 'rain' is neither 0 nor 1"));
}

// One site's numbers are all equal, another's category and class are nobody else's.
TEST_F(TableTest, SitesPooled_AreTheTableOfAllTheirRows) {
  const std::string head = "a,b,c,y\n";
  const std::vector<std::string> rows = {"1,1e6,u,p\n4,1000001,v,q\n",
                                         "10,1000002,u,p\n10,1000003,u,r\n10,1000004,w,p\n", "-3,1000005,u,q\n"};
  std::vector<std::pair<std::string, TableColumns>> sites;
  std::string all;
  for (const std::string& own : rows) {
    TableOptions options = Options(head + own);
    options.standardise = true;
    ASSERT_OK_AND_ASSIGN(const TableCounts counts, Import(options));
    ASSERT_OK_AND_ASSIGN(TableColumns read, ParseTableColumns(ToJson(counts.columns)));
    sites.emplace_back(fmt::format("site {}", sites.size() + 1), std::move(read));
    all += own;
  }
  TableOptions together = Options(head + all);
  together.standardise = true;
  ASSERT_OK_AND_ASSIGN(const TableCounts wanted, Import(together));
  ASSERT_OK_AND_ASSIGN(const TableColumns pooled, PoolTableColumns(sites));
  ASSERT_EQ(pooled.features.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(pooled.features[i].mean / wanted.columns.features[i].mean, 1, 1e-14);
    EXPECT_NEAR(pooled.features[i].deviation / wanted.columns.features[i].deviation, 1, 1e-12);
    EXPECT_EQ(pooled.features[i].count, 6);
  }
  EXPECT_THAT(pooled.features[2].values, ElementsAre("u", "v", "w"));
  EXPECT_THAT(pooled.classes, ElementsAre("p", "q", "r"));
  EXPECT_EQ(pooled.class_count, 3);
  EXPECT_TRUE(pooled.standardised);

  sites[1].second.features[0].name = "aa";
  EXPECT_THAT(testing::ErrorOf(PoolTableColumns(sites)),
              HasSubstr("site 2 has the column 'aa' where those before have 'a'"));
  sites[1].second.features[0] = sites[1].second.features[2];
  sites[1].second.features[0].name = "a";
  EXPECT_THAT(testing::ErrorOf(PoolTableColumns(sites)),
              HasSubstr("site 2 has numbers in the column 'a' where another"));
  sites[1] = sites[2];
  sites[1].second.features[1].count = 0;
  EXPECT_THAT(testing::ErrorOf(PoolTableColumns(sites)),
              HasSubstr("does not give the number of rows behind the mean of 'b'"));
  sites[1] = sites[2];
  sites[1].second.label = "z";
  EXPECT_THAT(testing::ErrorOf(PoolTableColumns(sites)), HasSubstr("is for other columns to be learnt"));
}

TEST_F(TableTest, DamagedColumns_AreRefused) {
  TableOptions options = Options("a,y\n1,0\n");
  options.columns = Path("c.json");
  const std::string good = R"({"features": [{"column": "a", "kind": "number", "mean": 0, "deviation": 1}],
                              "standardised": true, "label": {"column": "y", "count": 2}})";
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{good, ""},
                                                        {good, "[]"},
                                                        {"\"a\"", "3"},
                                                        {"\"mean\": 0, ", ""},
                                                        {"\"deviation\": 1", "\"deviation\": 0"},
                                                        {"\"deviation\": 1", "\"deviation\": 1, \"count\": -1"},
                                                        {"\"number\"", "\"category\""},
                                                        {"\"count\": 2", "\"count\": 0"},
                                                        {"\"count\": 2", "\"classes\": [\"b\", \"a\"]"},
                                                        {"\"count\": 2", "\"count\": 2, \"classes\": [\"b\", \"a\"]"},
                                                        {"\"label\"", "\"labels\""},
                                                        {"\"label\"", "\"targets\": [\"z\"], \"label\""},
                                                        {"\"features\": [", "\"features\": [3, "}}) {
    std::string json = good;
    json.replace(json.find(from), from.size(), to);
    Write("c.json", json);
    EXPECT_THAT(Error(options), AllOf(HasSubstr("c.json: "), HasSubstr("give the columns.json of an earlier import")))
        << json;
  }
  Write("c.json", good);
  EXPECT_OK(Import(options));
}

TEST_F(TableTest, RowsForTheTest_ComeFromAFileOrFromEverySoManyth) {
  TableOptions options = Options("a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n");
  options.test_every = 2;
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("1 = 0", "3 = 0", "5 = 0"));
  EXPECT_THAT(Told("out/test.tfrecord"), ElementsAre("2 = 1", "4 = 1"));
  options.test_every = 0;
  options.test = Write("test.csv", "a,y\n9,1\n");
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/test.tfrecord"), ElementsAre("9 = 1"));
}

TEST_F(TableTest, NoHeader_NamesColumnsByTheirNumber) {
  TableOptions options = Options("5,a\n6,b\n");
  options.header = false;
  options.label = "2";
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("5 = 0", "6 = 1"));
}

TEST_F(TableTest, EmptyCells_AreRefusedOrTakeTheMean) {
  TableOptions options = Options("a,y\n1,0\n,1\n3,0\n");
  EXPECT_THAT(Error(options), HasSubstr("t.csv: line 3: column 'a' is empty. Pass --fill-missing to use the"));
  options.fill_missing = true;
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("1 = 0", "2 = 1", "3 = 0"));
}

TEST_F(TableTest, ValuesThatNameRows_AreRefusedUnlessTheyAreAskedFor) {
  std::string csv = "Patient ID,ward,y\n";
  for (int i = 0; i < 40; ++i) csv += fmt::format("P{},{},{}\n", i / 2, i % 4 == 0 ? "A" : "B", i % 2);
  TableOptions options = Options(csv);  // two rows of each patient
  EXPECT_THAT(Error(options), AllOf(HasSubstr("column 'Patient ID' has 20 different values in 40 rows"),
                                    HasSubstr("columns.json would disclose them all. Pass --without 'Patient ID'")));
  options.without = {"Patient ID"};
  ASSERT_OK(Import(options));
  options.without = {};
  options.categories = {"Patient ID"};
  const auto counts = Import(options);
  ASSERT_OK(counts);
  EXPECT_EQ(counts->columns.feature_count(), 22);
  EXPECT_THAT(Disclosures(counts->columns), ElementsAre("every value of 'Patient ID': P0, P1, P10, P11, P12, … (20 "
                                                        "values)",
                                                        "every value of 'ward': A, B"));
  EXPECT_THAT(ToJson(counts->columns), ::testing::StartsWith("{\n  \"discloses\": [\n    \"every value of 'Patient"));
  options.label = "Patient ID";
  options.categories = {};
  EXPECT_FALSE(Import(options).ok());
}

TEST_F(TableTest, TextsAmongNumbers_AreNamedByLineAndCount) {
  TableOptions options = Options("age,sex,y\n30,f,0\nNA,m,1\n41,f,0\n?,m,1\nNA,f,0\n52,m,1\n");
  EXPECT_THAT(Error(options), AllOf(HasSubstr("t.csv: column 'age': 3 of 6 cells are no numbers: 'NA' (2 cells, first "
                                              "in line 3), '?' (line 5). Pass"),
                                    HasSubstr("--missing '?'"), HasSubstr("--missing 'NA'")));
  options.missing = {"NA", "?"};
  EXPECT_THAT(Error(options), HasSubstr("t.csv: line 3: column 'age' is empty. Pass --fill-missing"));
  options.fill_missing = true;
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"),
              ElementsAre("30 1 0 = 0", "41 0 1 = 1", "41 1 0 = 0", "41 0 1 = 1", "41 1 0 = 0", "52 0 1 = 1"));
  for (const char* const cells : {"$5|$6|$7", "NA|NA|1", "1|-|3", "null|null|null", "40%|41%|42%"}) {
    std::string csv = "a;y\n";
    for (const char* c = cells; *c != '\0'; ++c) csv += *c == '|' ? ";0\n" : std::string(1, *c);
    TableOptions odd = Options(csv + ";0\n");
    std::filesystem::remove_all(Path("out"));
    odd.delimiter = ';';
    EXPECT_THAT(Error(odd), HasSubstr("t.csv: column 'a': ")) << cells;
    odd.categories = {"a"};
    EXPECT_OK(Import(odd)) << cells;
    std::filesystem::remove_all(Path("out"));
  }
}

TEST_F(TableTest, NumbersOfOtherCountries_AreReadWhenTheImportSaysHow) {
  TableOptions options = Options("a;y\n1.234,5;0\n-12;1\n2.000.000;0\n");
  options.delimiter = ';';
  EXPECT_THAT(Error(options), HasSubstr("column 'a': 2 of 3 cells are no numbers: '1.234,5' (line 2)"));
  options.decimal = ',';
  options.thousands = '.';
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("1234.5 = 0", "-12 = 1", "2e+06 = 0"));
  std::filesystem::remove_all(Path("out"));
  options.from = Write("u.csv", "a;y\n1.23;0\n12;1\n");
  EXPECT_THAT(Error(options), HasSubstr("u.csv: column 'a': 1 of 2 cells is no number: '1.23' (line 2)"));
  options.thousands = ',';
  EXPECT_THAT(Error(options), HasSubstr("',' cannot be the decimal sign and the separator of thousands at once"));
  TableOptions price = Options("a;price\n1;1,000\n2;2,000\n");
  price.delimiter = ';';
  price.label = "";
  price.targets = {"price"};
  EXPECT_THAT(Error(price), HasSubstr("--decimal, --thousands and --unit say how numbers are written"));
  price.thousands = ',';
  ASSERT_OK(Import(price));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("1 1000 ", "2 2000 "));
}

TEST_F(TableTest, SeveralColumnsThatAreRefused_AreNamedAtOnce) {
  std::string csv = "id,age,fee,sex,y\n";
  for (int i = 0; i < 20; ++i) csv += fmt::format("P{},{},${},{},0\n", i, i == 3 ? "NA" : "30", i % 5, i % 2);
  TableOptions options = Options(csv);
  EXPECT_THAT(Error(options),
              AllOf(HasSubstr("t.csv: column 'id' has 20 different values in 20 rows"),
                    HasSubstr("t.csv: column 'age': 1 of 20 cells is no number: 'NA' (line 5). Pass --missing 'NA'"),
                    HasSubstr("t.csv: column 'fee': 20 of 20 cells are no numbers"), HasSubstr("--unit '$'")));
  options.without = {"id"};
  options.missing = {"NA"};
  options.fill_missing = true;
  options.units = {"$"};
  EXPECT_OK(Import(options));
}

// A column of one cell each row, and what the import says of it.
TEST_F(TableTest, NumbersBesideUnits_AreNamedAndReadWithoutThem) {
  struct Case {
    std::string cells;  // of a row each
    std::vector<std::string> units;
    const char* offered;
    std::vector<std::string> read;  // with the options
  };
  for (const Case& one : std::vector<Case>{
           {"$5|-$7|$-9", {"$"}, "Pass --unit '$' to read the number beside a unit.", {"5 = 0", "-7 = 0", "-9 = 0"}},
           {"40%|41 %|0.5%", {"%"}, "Pass --unit '%' ", {"40 = 0", "41 = 0", "0.5 = 0"}},
           {"50 kg|50 kg|52kg|60", {"kg"}, "Pass --unit 'kg' ", {"50 = 0", "50 = 0", "52 = 0", "60 = 0"}},
           {"1 kg|2 lb|3 kg|4 kg", {"kg", "lb"}, "Pass --unit 'kg' --unit 'lb' ", {"1 = 0", "2 = 0", "3 = 0", "4 = 0"}},
           {"USD 5|USD 7|USD 5", {"USD"}, "Pass --unit 'USD' ", {"5 = 0", "7 = 0", "5 = 0"}},
           {"20°C|21°C", {"°C"}, "Pass --unit '°C' ", {"20 = 0", "21 = 0"}},
           {"1.5 kg/m2|2 kg/m2", {"kg/m2"}, "Pass --unit 'kg/m2' ", {"1.5 = 0", "2 = 0"}}}) {
    std::string csv = "a;y\n";
    for (const char c : one.cells) csv += c == '|' ? ";0\n" : std::string(1, c);
    TableOptions options = Options(csv + ";0\n");
    options.delimiter = ';';
    EXPECT_THAT(Error(options), HasSubstr(one.offered)) << one.cells;
    options.units = one.units;
    EXPECT_OK(Import(options)) << one.cells;
    EXPECT_EQ(Told("out/train.tfrecord"), one.read) << one.cells;
    std::filesystem::remove_all(Path("out"));
  }
  TableOptions price = Options("a;y\n$1,000.50;0\n-$2,000;1\n");
  price.delimiter = ';';
  EXPECT_THAT(Error(price), AllOf(HasSubstr("--unit '$'"), HasSubstr("--thousands ,")));
  price.units = {"$"};
  price.thousands = ',';
  ASSERT_OK(Import(price));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("1000.5 = 0", "-2000 = 1"));
}

TEST_F(TableTest, NumbersThatNoOptionReads_AreNoCategoryInSilence) {
  for (const char* const cells : {"<5|7|>9", "(5)|(6)|(5)", "10k|10k|9k", "~5|~5|~6"}) {
    std::string csv = "a;y\n";
    for (const char* c = cells; *c != '\0'; ++c) csv += *c == '|' ? ";0\n" : std::string(1, *c);
    TableOptions options = Options(csv + ";0\n");
    options.delimiter = ';';
    EXPECT_THAT(Error(options), AllOf(HasSubstr("column 'a': "), HasSubstr("Write the other cells as plain numbers")))
        << cells;
  }
  EXPECT_THAT(Error("a,y\ninf,0\n2,1\n"), HasSubstr("Pass --missing 'inf' --fill-missing"));
  EXPECT_THAT(Error("a,y\n1 000,0\n2 000,1\n"), HasSubstr("Pass --thousands ' ' for such numbers"));
}

// Codes, ordinals and ranges are names, whatever digits are in them.
TEST_F(TableTest, NamesWithDigits_AreCategories) {
  for (const char* const cells :
       {"T1|T2|T1", "1st|2nd|2nd", "2a|2b|2a", "10-19|20-29|10-19", "stage 1|stage 2|stage 1"}) {
    std::string csv = "a;y\n";
    for (const char* c = cells; *c != '\0'; ++c) csv += *c == '|' ? ";0\n" : std::string(1, *c);
    TableOptions options = Options(csv + ";0\n");
    options.delimiter = ';';
    EXPECT_OK(Import(options)) << cells;
    EXPECT_EQ(Told("out/train.tfrecord").size(), 3u);
    std::filesystem::remove_all(Path("out"));
  }
}

TEST_F(TableTest, LabelsThatAreMissing_AreNoClass) {
  EXPECT_THAT(
      Error("a,y\n1,0\n2,NA\n3,1\n"),
      HasSubstr("the label 'y' is a class in some rows and missing in others: 1 of 3 cells is no number: 'NA'"));
}

TEST_F(TableTest, BadTables_AreRefusedByLine) {
  EXPECT_EQ(Error(""), "t.csv: it has no rows");
  EXPECT_EQ(Error("a,y\n"), "t.csv: it has no rows besides its header");
  EXPECT_THAT(Error("a,y\n1\n"), HasSubstr("t.csv: line 2: 1 cells, but the first row has 2; is this the right delim"));
  EXPECT_THAT(Error("a,a,y\n1,2,3\n"), HasSubstr("t.csv: line 1: two columns are called 'a'"));
  EXPECT_THAT(Error(",y\n1,2\n"), HasSubstr("the name of column 1 has 0 bytes"));
  EXPECT_THAT(Error("a,yy\n1,2\n"), HasSubstr("t.csv has no column 'y'."));
  EXPECT_THAT(Error("y\n2\n"), HasSubstr("leaves no column for the features"));
  EXPECT_THAT(Error("a,y\n1,0\nnan,1\n"),
              HasSubstr("t.csv: column 'a': 1 of 2 cells is no number: 'nan' (line 3). Pass --missing"));
  EXPECT_THAT(Error("a,y\n1e999,0\n"), HasSubstr("column 'a': 1 of 1 cells is no number: '1e999' (line 2)"));
  EXPECT_THAT(Error("a,y\n1e39,0\n"), HasSubstr("'1e39' in column 'a' is beyond the range of a float"));
  EXPECT_THAT(Error("a,y\n1,\n"), HasSubstr("t.csv: line 2: the label 'y' is empty"));
  EXPECT_THAT(Error("a,y\n1,0.5\n"),
              HasSubstr("the label '0.5' is no class; to have the numbers of 'y' predicted, name it as the target"));
  EXPECT_THAT(Error("a,y\n,0\n"), HasSubstr("column 'a' is empty in every row; leave it out"));
  std::string many = "a,y\nx,0\n";
  for (int i = 0; i < 1001; ++i) many += fmt::format("{},0\n", i);
  EXPECT_THAT(Error(many),
              HasSubstr("t.csv: column 'a': 1 of 1002 cells is no number: 'x' (line 2). Write the other cells"));
  many = "a,y\n";
  for (int i = 0; i < 1001; ++i) many += fmt::format("w{0},0\nw{0},0\nw{0},0\n", i);
  EXPECT_THAT(Error(many), HasSubstr("t.csv: column 'a' has more than 1000 different values. Pass --without 'a'"));
  many = "a,y\n";
  for (int i = 0; i < 10001; ++i) many += fmt::format("1,c{}\n", i);
  EXPECT_THAT(Error(many), HasSubstr("the label 'y' has more than 10000 different values"));
  EXPECT_THAT(Error("a,y\n\xff,0\n"),
              HasSubstr("t.csv: line 2: column 'a' has a value of more than 256 bytes, or that"));
}

TEST_F(TableTest, BadRoles_AreRefused) {
  TableOptions options = Options("a,b,y\n1,2,0\n");
  options.key = "y";
  EXPECT_THAT(Error(options), HasSubstr("column 'y' cannot have two of the roles"));
  options.key = "";
  options.without = {"z"};
  EXPECT_THAT(Error(options), HasSubstr("t.csv has no column 'z'. It has 'a', 'b', 'y'."));
  TableOptions semicolons = options;
  semicolons.from = Write("s.csv", "a;b;y\n1;2;0\n");
  EXPECT_THAT(
      Error(semicolons),
      HasSubstr(
          "s.csv has no column 'y': its first row is one cell, 'a;b;y'; give the separator of cells with --delimiter"));
  options.without = {"a"};
  options.categories = {"a"};
  EXPECT_THAT(Error(options), HasSubstr("column 'a' is no feature, so it cannot be a category"));
  options = Options("a,label,y\n1,2,0\n");
  options.key = "label";
  EXPECT_THAT(Error(options), HasSubstr("the column 'label' cannot be the key"));
  options = Options("a,h,y\n1,,0\n");
  options.key = "h";
  EXPECT_THAT(Error(options), HasSubstr("t.csv: line 2: 'h' has 0 bytes and cannot name a client"));
  options.label = "";
  EXPECT_THAT(Error(options), HasSubstr("no label and no target is given"));
  options.labels = {"y"};
  options.targets = {"y"};
  EXPECT_THAT(Error(options), HasSubstr("give one of label and target"));
  options = Options("a,y\n1,0\n");
  options.test = options.from;
  options.test_every = 2;
  EXPECT_THAT(Error(options), HasSubstr("every 2th row; give one of both"));
}

TEST_F(TableTest, PackedFiles_AreRead) {
  TableOptions options = Options("");
  options.from = Write("t.csv.gz", Pack("a,y\n1,0\n", 31));
  ASSERT_OK(Import(options));
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("1 = 0"));
}

}  // namespace
}  // namespace rivulet
