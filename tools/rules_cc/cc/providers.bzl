"""CcInfo and cc_common under other names, since a file cannot define a name from the built-in of that name."""

cc_info = CcInfo
cc_module = cc_common
