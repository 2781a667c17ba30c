#include "ringrad/data/csv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using Fields = std::vector<std::string>;

TEST(CsvTest, QuotedFieldsHoldDelimitersLineEndsAndQuotes) {
  const CsvTable table("\xEF\xBB\xBFname,\"a \"\"b\"\"\"\r\n\"x, y\",\"two\nlines\"\r\n,\"\"\n");
  EXPECT_EQ(table.names(), (Fields{"name", "a \"b\""}));
  EXPECT_EQ(table.column("name"), (Fields{"x, y", ""}));
  EXPECT_EQ(table.column("a \"b\""), (Fields{"two\nlines", ""}));
  EXPECT_EQ(table.num_rows(), 2);
}

TEST(CsvTest, TheLastLineNeedsNoEnd) {
  for (const char* text : {"1;2\n3;4", "1;2\n3;4\n", "1;2\r\n3;4\r\n"}) {
    const CsvTable table(text, {.delimiter = ';', .has_header = false});
    EXPECT_EQ(table.names(), (Fields{"0", "1"}));
    EXPECT_EQ(table.numbers().to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  }
  EXPECT_EQ(CsvTable("").num_rows(), 0);
  EXPECT_EQ(CsvTable("a,b\n").numbers().shape(), Shape({0, 2}));
}

TEST(CsvTest, ColumnsBecomeNumbersAndClasses) {
  const CsvTable table("x,kind,y\n 1.5 ,dog,-2e3\nnan,cat,inf\n0,dog,7\n");
  const Tensor numbers = table.numbers({"y", "x"}, DType::float64);
  EXPECT_EQ(numbers.shape(), Shape({3, 2}));
  const auto values = numbers.to_vector<double>();
  EXPECT_EQ(values[0], -2000);
  EXPECT_EQ(values[1], 1.5);
  EXPECT_EQ(values[2], INFINITY);
  EXPECT_TRUE(std::isnan(values[3]));
  const auto [classes, names] = table.classes("kind");
  EXPECT_EQ(classes.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(names, (Fields{"cat", "dog"}));
}

TEST(CsvTest, ErrorsNameThePlace) {
  expect_throws<DataError>([] { CsvTable("a,b\n1,2\n3\n"); }, "line 3 must have 2 fields");
  expect_throws<DataError>([] { CsvTable("a\n\"x\n\ny"); }, "line 2 must have a closing quote");
  expect_throws<DataError>([] { CsvTable("a\n\"x\"y\n"); }, "line 2 must have a delimiter");
  expect_throws<DataError>([] { CsvTable("a\rb"); }, "line 1 must have a delimiter");
  const CsvTable table("a,b\n1,x\n");
  expect_throws<DataError>([&] { table.numbers(); }, "row 0 must have a number in column \"b\"");
  expect_throws<DataError>([&] { CsvTable("a\n1 2\n").numbers(); }, "got \"1 2\"");
  expect_throws<ValueError>([&] { table.column("c"); }, "column \"c\"; got a, b");
  expect_throws<DTypeError>([&] { table.numbers({"a"}, DType::int64); }, "floating");
  expect_throws<ValueError>([] { CsvTable("", {.delimiter = '"'}); }, "delimiter");
}

TEST(CsvTest, AHeaderThatNamesTwoColumnsTheSameIsRefused) {
  expect_throws<DataError>([] { CsvTable("x,y,x\n1,2,3\n"); },
                           "the header must name each column once, unless ignores_names is set; "
                           "got \"x\" for columns 0 and 2");
  expect_throws<DataError>([] { CsvTable(",a,\n1,2,3\n"); }, "got \"\" for columns 0 and 2");
  expect_throws<DataError>([] { CsvTable("a,a\n"); }, "got \"a\" for columns 0 and 1");
  EXPECT_EQ(CsvTable(",a\n1,2\n").names(), (Fields{"", "a"}));  // one without a name is no other
  for (const char* text : {"x,y,x\n1,2,3\n", ",,\n1,2,3\n"}) {
    const CsvTable table(text, {.ignores_names = true});
    EXPECT_EQ(table.names(), (Fields{"0", "1", "2"}));
    EXPECT_EQ(table.numbers().to_vector<float>(), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(table.numbers({"2", "0"}).to_vector<float>(), (std::vector<float>{3, 1}));
  }
}

TEST(CsvTest, NumbersBeyondTheDTypeAreRefusedAndSmallOnesAreRounded) {
  const auto number = [](const std::string& text, DType dtype) {
    return CsvTable("x\n" + text + "\n").numbers({"x"}, dtype).item<double>();
  };
  for (const auto& [text, dtype] :
       std::vector<std::pair<std::string, DType>>{{"1e39", DType::float32},
                                                  {"-1e39", DType::float32},
                                                  {"3.5e38", DType::bfloat16},
                                                  {"70000", DType::float16},
                                                  {"1e309", DType::float64},
                                                  {"-1e4000", DType::float64},
                                                  {"1e99999", DType::float32}})
    expect_throws<DataError>([&] { number(text, dtype); },
                             concat("row 0 must have a number that ", dtype,
                                    " can hold in column \"x\"; got \"", text, '"'));
  EXPECT_EQ(number("1e39", DType::float64), 1e39);
  EXPECT_EQ(number("3.4028234e38", DType::float32), 3.4028234663852886e38);
  EXPECT_EQ(number("65504", DType::float16), 65504);
  EXPECT_EQ(number("-inf", DType::float16), -INFINITY);
  EXPECT_EQ(number("1e-310", DType::float64), 1e-310);
  for (const char* small : {"1e-400", "-1e-5000", "1e-99999"}) {
    EXPECT_EQ(number(small, DType::float64), 0) << small;
    EXPECT_EQ(number(small, DType::float32), 0) << small;
  }
}

TEST(CsvTest, NumbersAreRoundedOnce) {
  const auto number = [](const std::string& text, DType dtype) {
    return CsvTable("x\n" + text + "\n").numbers({"x"}, dtype).item<double>();
  };
  EXPECT_EQ(number("1.0000000596046447754", DType::float32), 1 + 0x1p-23);
  EXPECT_EQ(number("2049.0000000001", DType::float16), 2050);
  EXPECT_EQ(number("2049", DType::float16), 2048);
  EXPECT_EQ(number("-2050.9999999999", DType::float16), -2050);
  EXPECT_EQ(number("65519.9999999999", DType::float16), 65504);
  EXPECT_EQ(number("1.00390625000001", DType::bfloat16), 1.0078125);
  EXPECT_EQ(number("1.00390625", DType::bfloat16), 1);
  EXPECT_EQ(number("2.980232238769532e-8", DType::float16), 0x1p-24);
  EXPECT_EQ(number("2.98023223876953125e-8", DType::float16), 0);
}

TEST(CsvTest, NumbersMayHaveSignsTabsAndManyZeros) {
  const CsvTable table("a,b,c,d\n+1.5,\t2\t ,+inf, +.5e+1\n");
  EXPECT_EQ(table.numbers().to_vector<float>(), (std::vector<float>{1.5, 2, INFINITY, 5}));
  for (const char* text : {"+-1", "++1", "+", "\t", "1\t2", ""})
    expect_throws<DataError>([&] { CsvTable(concat("x\n", text, "\n")).numbers(); },
                             "must have a number in column");
  const std::string zeros(5000, '0');
  for (const auto& small : Fields{"0." + zeros + "1", "-0." + zeros + "1e+400", "1e-400"})
    EXPECT_EQ(CsvTable("x\n" + small + "\n").numbers().item(), 0);
  for (const auto& large : Fields{"1" + zeros, "1" + zeros + "e-400", "-.1e400"})
    expect_throws<DataError>([&] { CsvTable("x\n" + large + "\n").numbers(); }, "can hold");
}

TEST(CsvTest, FilesAreRead) {
  const testing::Folder folder;
  std::ofstream(folder / "t.csv") << "a,b\n1,2\n";
  EXPECT_EQ(read_csv(folder / "t.csv").numbers().to_vector<float>(), (std::vector<float>{1, 2}));
  expect_throws<DataError>([&] { read_csv(folder / "t.csv", {.most_bytes = 7}); },
                           "t.csv must hold at most 7 bytes; got more");
  EXPECT_EQ(read_csv(folder / "t.csv", {.most_bytes = 8}).num_rows(), 1);
  std::ofstream(folder / "bad.csv") << "a,b\n1\n";
  expect_throws<DataError>([&] { read_csv(folder / "bad.csv"); }, "bad.csv");
  expect_throws<DataError>([&] { read_csv(folder / "none.csv"); }, "none.csv");
}

}  // namespace
}  // namespace ringrad
