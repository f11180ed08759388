// Declaration of a column: its name, its SQL type, and the member of the row that holds it. CREATE TABLE, INSERT,
// SELECT and the command line's output derive from this one list beside the row:
//
//   template <>
//   struct SqlTable<TagRow> {
//     static constexpr char kName[] = "tag";
//     static constexpr auto kColumns = std::tuple(SqlColumn{"run", &TagRow::run, "INTEGER NOT NULL REFERENCES run
//     (run)"},
//                                                 SqlColumn{"tag", &TagRow::tag, "TEXT NOT NULL"});
//     static constexpr char kRest[] = "PRIMARY KEY (run, tag)";  // after the columns; "" for none
//     static constexpr bool kWithoutRowid = true;
//   };
//
// The list of a view's row has names and members only. A row that derives from another also has that one's columns.
// Members are integers, bool, double, std::string, Digest (a BLOB), and std::optional of them. nullopt is NULL, and so
// is "" in a column that is not NOT NULL.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/history/database.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"

namespace rivulet {

template <typename Row, typename Value>
struct SqlColumn {
  constexpr SqlColumn(const char* n, Value Row::*m, const char* t = "", int64_t s = 0)
      : name(n),
        member(m),
        type(t),
        not_null(std::string_view(t).find("NOT NULL") != std::string_view::npos),
        since(s) {}
  const char* name;
  Value Row::*member;
  const char* type;
  bool not_null;
  int64_t since;  // the first version of the history that has it; 0: every version
};

template <typename Row>
struct SqlTable;  // specialised beside each row

// The last version whose tables were created with all their columns; later versions add columns.
inline constexpr int kFirstHistory = 4;

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <typename Pointer>
struct MemberOf;
template <typename Row, typename V>
struct MemberOf<V Row::*> {
  using Value = V;
};

// The member of a BLOB column of any length.
struct SqlBytes {
  std::string bytes;
};

// The SQL type that follows from a member's type.
template <typename T>
constexpr const char* SqlTypeOf() {
  if constexpr (kIsOptional<T>) {
    using Value = typename T::value_type;
    return std::is_same_v<Value, double> ? "REAL" : std::is_same_v<Value, Digest> ? "BLOB" : "INTEGER";
  } else {
    return std::is_same_v<T, double> ? "REAL NOT NULL" : "INTEGER NOT NULL";
  }
}

// Those columns of a list such as kTaskColumns (name, member, history) for which kKeep(place, history) is true.
template <const auto& kList, auto kKeep>
constexpr auto SqlColumnsOf() {
  constexpr auto one = []<size_t I>(std::integral_constant<size_t, I>) {
    constexpr auto column = std::get<I>(kList);
    if constexpr (kKeep(I, column.history)) {
      using Value = typename MemberOf<decltype(column.member)>::Value;
      static_assert(column.history <= kFirstHistory || kIsOptional<Value>, "earlier rows do not have it");
      return std::tuple(SqlColumn{column.name, column.member, SqlTypeOf<Value>(), column.history});
    } else {
      return std::tuple<>();
    }
  };
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::tuple_cat(one(std::integral_constant<size_t, I>())...);
  }
  (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(kList)>>>());
}

template <typename T>
SqlValue ToSql(const T& value, bool not_null) {
  if constexpr (kIsOptional<T>) {
    return value ? ToSql(*value, true) : SqlValue();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return not_null ? SqlValue(std::string_view(value)) : TextOrNull(value);
  } else if constexpr (std::is_same_v<T, Digest>) {
    return SqlValue(SqlBlob{value.AsBytes()});
  } else if constexpr (std::is_same_v<T, SqlBytes>) {
    return SqlValue(SqlBlob{value.bytes});
  } else if constexpr (std::is_same_v<T, double>) {
    return SqlValue(value);
  } else {
    return SqlValue(static_cast<int64_t>(value));
  }
}

template <typename T>
T FromSql(const SqlRow& row, int column) {
  if constexpr (kIsOptional<T>) {
    return row.IsNull(column) ? T() : T(FromSql<typename T::value_type>(row, column));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return row.Text(column);
  } else if constexpr (std::is_same_v<T, Digest>) {
    // A view has it as hexadecimal digits.
    Digest digest;
    const std::string bytes = row.Text(column);
    if (bytes.size() != digest.bytes.size()) return Digest::FromHex(bytes).value_or(digest);
    std::memcpy(digest.bytes.data(), bytes.data(), bytes.size());
    return digest;
  } else if constexpr (std::is_same_v<T, SqlBytes>) {
    return SqlBytes{row.Text(column)};
  } else if constexpr (std::is_same_v<T, double>) {
    return row.Real(column);
  } else {
    return static_cast<T>(row.Int(column));
  }
}

template <typename Row, typename Each>
void ForEachColumn(Each&& each) {
  std::apply([&](const auto&... column) { (each(column), ...); }, SqlTable<Row>::kColumns);
}

// "CREATE TABLE tag (run INTEGER NOT NULL …, tag TEXT NOT NULL, PRIMARY KEY (run, tag)) STRICT, WITHOUT ROWID", with
// the columns of a history of `version`.
template <typename Row>
std::string CreateTableSql(int64_t version = std::numeric_limits<int64_t>::max()) {
  std::string columns;
  ForEachColumn<Row>([&](const auto& c) {
    if (c.since <= version) columns += fmt::format("{}  {} {}", columns.empty() ? "" : ",\n", c.name, c.type);
  });
  if (SqlTable<Row>::kRest[0] != '\0') columns += fmt::format(",\n  {}", SqlTable<Row>::kRest);
  return fmt::format("CREATE TABLE {} (\n{}\n) STRICT{};\n", SqlTable<Row>::kName, columns,
                     SqlTable<Row>::kWithoutRowid ? ", WITHOUT ROWID" : "");
}

// "ALTER TABLE tag ADD COLUMN …" for each column that a history of `version` lacks, in the order of CREATE TABLE; ""
// for none.
template <typename Row>
std::string AddColumnsSql(int64_t version) {
  std::string sql;
  ForEachColumn<Row>([&](const auto& c) {
    if (c.since > version)
      sql += fmt::format("ALTER TABLE {} ADD COLUMN {} {};\n", SqlTable<Row>::kName, c.name, c.type);
  });
  return sql;
}

// The version that added the newest of its columns.
template <typename Row>
constexpr int64_t NewestColumn() {
  return std::apply(
      [](const auto&... column) {
        return std::max({int64_t{0}, column.since...});
      },
      SqlTable<Row>::kColumns);
}

template <typename Row>
std::string ColumnList() {
  std::string list;
  ForEachColumn<Row>([&](const auto& c) { list += fmt::format("{}{}", list.empty() ? "" : ", ", c.name); });
  return list;
}

// "INSERT INTO tag (run, tag) VALUES (?, ?)", with `rows` rows after VALUES.
template <typename Row>
std::string InsertSql(size_t rows = 1) {
  std::string marks;
  ForEachColumn<Row>([&](const auto&) { marks += marks.empty() ? "?" : ", ?"; });
  std::string sql = fmt::format("INSERT INTO {} ({}) VALUES ({})", SqlTable<Row>::kName, ColumnList<Row>(), marks);
  for (size_t row = 1; row < rows; ++row) sql += fmt::format(", ({})", marks);
  return sql;
}

// "SELECT run, tag FROM tag WHERE …"
template <typename Row>
std::string SelectSql(std::string_view rest) {
  return fmt::format("SELECT {} FROM {} {}", ColumnList<Row>(), SqlTable<Row>::kName, rest);
}

// Runs `insert`, which is prepared from InsertSql.
template <typename Row>
Status Insert(Statement& insert, const Row& row) {
  return std::apply(
      [&](const auto&... column) { return insert.Run({ToSql(row.*(column.member), column.not_null)...}); },
      SqlTable<Row>::kColumns);
}
// The same for several rows, by a statement from InsertSql for that number. It takes two thirds of the time per row:
// the table, its index, and the tables it refers to are opened once for all of them.
template <typename Row>
Status Insert(Statement& insert, std::span<const Row> rows) {
  std::vector<SqlValue> values;
  values.reserve(rows.size() * std::tuple_size_v<decltype(SqlTable<Row>::kColumns)>);
  for (const Row& row : rows) {
    ForEachColumn<Row>([&](const auto& column) { values.push_back(ToSql(row.*(column.member), column.not_null)); });
  }
  return insert.Run(values);
}
template <typename Row>
Status Insert(Database& db, const Row& row) {
  static const std::string sql = InsertSql<Row>();
  RIVULET_ASSIGN_OR_RETURN(Statement * insert, db.Prepare(sql));
  return Insert(*insert, row);
}

template <typename Row>
Row ReadRow(const SqlRow& from) {
  Row row;
  int i = 0;
  ForEachColumn<Row>([&](const auto& column) {
    auto& value = row.*(column.member);
    value = FromSql<std::remove_reference_t<decltype(value)>>(from, i++);
  });
  return row;
}

// Every row of "SELECT … FROM the row's table `rest`".
template <typename Row>
StatusOr<std::vector<Row>> Select(Database& db, std::string_view rest, std::initializer_list<SqlValue> values) {
  std::vector<Row> rows;
  RIVULET_RETURN_IF_ERROR(
      db.Query(SelectSql<Row>(rest), values, [&](const SqlRow& row) { rows.push_back(ReadRow<Row>(row)); }));
  return rows;
}

// A row's values by column name, for tables and JSON. "" is null.
using ShownValue = SqlShown;

template <typename T>
ShownValue ShowValue(const T& value) {
  if constexpr (kIsOptional<T>) {
    return value ? ShowValue(*value) : ShownValue();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? ShownValue() : ShownValue(value);
  } else if constexpr (std::is_same_v<T, Digest>) {
    return value.Hex();
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, bool>) {
    return value;
  } else {
    return static_cast<int64_t>(value);
  }
}
template <typename Row>
std::vector<std::pair<std::string, ShownValue>> Shown(const Row& row) {
  std::vector<std::pair<std::string, ShownValue>> shown;
  ForEachColumn<Row>([&](const auto& c) { shown.emplace_back(c.name, ShowValue(row.*(c.member))); });
  return shown;
}

}  // namespace rivulet
