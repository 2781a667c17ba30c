#error "a header of the user's own project was taken for one of Ringrad's"
