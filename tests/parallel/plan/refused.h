// Errors of the planners, which know nothing of core's (tests/testing.h has those).

#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace ringrad {

/// body() must throw std::invalid_argument with `why` in its message.
void expect_refused(const auto& body, const std::string& why) {
  try {
    body();
    ADD_FAILURE() << "threw nothing; expected: " << why;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

}  // namespace ringrad
