#include <cmath>
#include <limits>

#include "tests/messages.h"
#include "tests/readers/text/parse_fields_fixture.h"

// NaN and Infinity as Python's json module writes and reads them.

namespace millrace::readers {
namespace {

ParseFieldsOptions Options(bool allow_nan) {
  ParseFieldsOptions options;
  options.format = RecordFormat::kJson;
  options.features = {Want("x", DType::kF32), Want("v", DType::kF32, {Shape::kUnknown}),
                      Want("n", DType::kI64)};
  options.features[2].has_default = true;
  options.allow_nan = allow_nan;
  return options;
}

// S-PARSE-4.
TEST_F(ParseFieldsTest, NanAndInfinityAreNumbersWhereThatIsAllowed) {
  Parse(Options(/*allow_nan=*/true),
        {R"({"x": NaN, "v": [Infinity, -Infinity, 1], "other": [NaN, {"a": -Infinity}]})",
         R"({"x": -Infinity})", R"({"x": 1, "n": NaN})", R"({"x": -NaN})", R"({"x": Inf})",
         R"({"x": nan})"});
  EXPECT_TRUE(std::isnan(Floats("x")[0]));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Floats("v"), (std::vector<float>{kInfinity, -kInfinity, 1}));
  EXPECT_EQ(Floats("x", 1), (std::vector<float>{-kInfinity}));
  for (int64_t row = 2; row < 6; ++row) EXPECT_MESSAGE(run_->status(row));
}

// S-PARSE-4.
TEST_F(ParseFieldsTest, WithoutThatTheyAreNoJson) {
  Parse(Options(/*allow_nan=*/false),
        {R"({"x": NaN})", R"({"x": 1, "y": Infinity})", R"({"x": -Infinity})"});
  for (int64_t row = 0; row < 3; ++row) EXPECT_FALSE(run_->ok(row)) << row;
}

}  // namespace
}  // namespace millrace::readers
