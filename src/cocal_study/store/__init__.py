"""Files of the study: contracts of its tables, labelled arrays, and the numbers of tables and figures."""
