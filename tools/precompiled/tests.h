// What every test includes.

#include <gtest/gtest.h>
